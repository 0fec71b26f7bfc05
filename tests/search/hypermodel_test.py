"""The hypermodel with KerasTuner's own tuners."""

import keras_tuner
import pytest

from zoo.errors import InputError
from zoo.search import HyperModel


@pytest.fixture
def hypermodel(tiny):
    recipe = tiny.override({"train.ema": 0.5, "model.architecture": "encoder_only"})
    return HyperModel(recipe, {"model.num_heads": (2, 3, 4)})


def test_a_tuner_of_keras_tuner(hypermodel, tmp_path):
    tuner = keras_tuner.GridSearch(
        hypermodel,
        objective=hypermodel.objective,
        directory=tmp_path,
        project_name="t",
        max_consecutive_failed_trials=9,
    )
    tuner.search(verbose=0)
    trials = {t.hyperparameters.values["model.num_heads"]: t for t in tuner.oracle.trials.values()}
    assert {heads: trial.status for heads, trial in trials.items()} == {2: "COMPLETED", 3: "FAILED", 4: "COMPLETED"}
    assert "16" in trials[3].message  # heads that don't divide the width
    (best,) = tuner.get_best_models()
    assert best.get_config()["num_heads"] == tuner.get_best_hyperparameters()[0]["model.num_heads"]


def test_a_trial_has_the_number_of_zoo_train(hypermodel, tmp_path):
    from zoo.training.train import train

    hp = keras_tuner.HyperParameters()
    hypermodel.space.declare(hp)
    hp.values["model.num_heads"] = 4
    history = hypermodel.fit(hp, hypermodel.build(hp), verbose=0)
    recipe = hypermodel.recipe.override({"model.num_heads": 4})
    trained = train(recipe, tmp_path / "run")
    assert history.history["val_token_nll"][-1] == pytest.approx(trained["valid_token_nll"], rel=1e-5)


def test_a_metric_on_decoded_text_is_no_objective_of_fit(tiny):
    recipe = tiny.override({"train.monitor": "exact_match", "train.decode_validation": 4})
    with pytest.raises(InputError, match="decoded text"):
        HyperModel(recipe, {"model.depth": (1, 2)}).objective  # noqa: B018
