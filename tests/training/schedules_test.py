import keras
import numpy as np
import pytest
from keras import ops

from zoo import registry
from zoo.errors import InputError
from zoo.recipe import TrainConfig
from zoo.training.schedules import NAMES, WarmupSchedule, make_optimizer, make_schedule

pytestmark = pytest.mark.backends

STEPS = [1, 2, 10, 99, 100, 101, 250, 1000, 5000]  # counted from 1, as in the papers


def rates(schedule, steps=STEPS):
    """The rates that Keras uses, which counts from 0."""
    return np.array([float(schedule(ops.convert_to_tensor(step - 1, "int32"))) for step in steps])


@pytest.mark.parametrize("width", [128, 512])
@pytest.mark.parametrize("warmup", [1, 100, 4000])
def test_noam_is_the_published_formula(width, warmup):
    schedule = make_schedule(TrainConfig(schedule="noam", warmup_steps=warmup, steps=7), width)
    expected = [width**-0.5 * min(step**-0.5, step * warmup**-1.5) for step in STEPS]
    np.testing.assert_allclose(rates(schedule), expected, rtol=1e-5)


def test_noam_with_a_peak_of_its_own():
    schedule = make_schedule(TrainConfig(schedule="noam", warmup_steps=100, learning_rate=0.02), 128)
    expected = [0.02 * min(step / 100, (100 / step) ** 0.5) for step in STEPS]
    np.testing.assert_allclose(rates(schedule), expected, rtol=1e-5)


@pytest.mark.parametrize("warmup", [0, 1, 100])
def test_cosine(warmup):
    schedule = make_schedule(TrainConfig(schedule="cosine", warmup_steps=warmup, learning_rate=0.02, steps=1000), 128)
    w = max(warmup, 1)
    expected = [
        0.02 * (step / w if step <= w else 0.5 * (1 + np.cos(np.pi * min((step - w) / (1000 - w), 1))))
        for step in STEPS
    ]
    np.testing.assert_allclose(rates(schedule), expected, rtol=1e-4, atol=1e-8)
    np.testing.assert_allclose(rates(schedule, [w, (1000 + w) // 2, 1000, 2000]), [0.02, 0.01, 0, 0], atol=2e-5)


def test_a_cosine_that_is_cut_short():
    cut = TrainConfig(schedule="cosine", learning_rate=0.02, steps=600, decay_steps=1000)
    whole = TrainConfig(schedule="cosine", learning_rate=0.02, steps=1000)
    np.testing.assert_array_equal(rates(make_schedule(cut, 128)), rates(make_schedule(whole, 128)))


@pytest.mark.parametrize("changes", [{"decay_steps": 599}, {"decay_steps": 700, "schedule": "constant"}])
def test_a_cosine_is_not_cut_long(changes):
    settings = {"schedule": "cosine", "learning_rate": 0.02, "steps": 600, **changes}
    with pytest.raises(InputError, match=f"decay_steps is where .* it is {changes['decay_steps']}"):
        make_schedule(TrainConfig(**settings), 128)


@pytest.mark.parametrize("warmup", [0, 100])
def test_constant(warmup):
    schedule = make_schedule(TrainConfig(schedule="constant", warmup_steps=warmup, learning_rate=0.02), 128)
    expected = [0.02 * min(step / max(warmup, 1), 1) for step in STEPS]
    np.testing.assert_allclose(rates(schedule), expected, rtol=1e-5)


@pytest.mark.parametrize("kind", NAMES)
def test_a_warm_up_longer_than_the_run_stays_finite(kind):
    schedule = WarmupSchedule(kind, 0.02, warmup_steps=100, steps=50)
    found = rates(schedule, [1, 50, 100, 101])
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[:2], [0.0002, 0.01], rtol=1e-5)


def test_errors():
    with pytest.raises(InputError, match=r"did you mean 'cosine'.*noam, cosine, constant"):
        WarmupSchedule("cosin", 0.1, 1, 1)
    for kind in ("cosine", "constant"):
        with pytest.raises(InputError, match="learning_rate is needed"):
            make_schedule(TrainConfig(schedule=kind), 128)


@pytest.mark.parametrize("kind", NAMES)
def test_a_schedule_is_made_again_from_its_config(kind):
    schedule = WarmupSchedule(kind, 0.02, 100, 1000)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(schedule))
    np.testing.assert_array_equal(rates(again), rates(schedule))


def test_an_optimizer_has_the_settings_of_the_recipe():
    train = TrainConfig(beta_1=0.8, beta_2=0.9, epsilon=1e-7, clip_norm=0.5, ema=0.95)
    optimizer = make_optimizer(train, 64)
    assert isinstance(optimizer, keras.optimizers.Adam)
    assert (optimizer.beta_1, optimizer.beta_2, optimizer.epsilon) == (0.8, 0.9, 1e-7)
    assert (optimizer.global_clipnorm, optimizer.use_ema, optimizer.ema_momentum) == (0.5, True, 0.95)
    assert not make_optimizer(TrainConfig(), 64).use_ema


def test_an_optimizer_takes_the_first_step_at_the_first_rate():
    """Adam's first step is the learning rate in size, whatever the gradient."""
    variable = keras.Variable(np.ones(3, "float32"))
    optimizer = make_optimizer(TrainConfig(warmup_steps=100), 64)
    for step in (1, 2):
        before = ops.convert_to_numpy(variable)
        optimizer.apply([ops.ones(3)], [variable])
        np.testing.assert_allclose(before - ops.convert_to_numpy(variable), step * 64**-0.5 * 100**-1.5, rtol=1e-2)


@pytest.mark.parametrize("norm", ["layer", "rms", "batch"])
def test_weight_decay_spares_biases_norms_and_embeddings(norm):
    model = registry.architecture.get("decoder_only")(
        vocabulary=11, max_length=8, width=8, depth=1, num_heads=2, norm=norm, position="learned", tie_output=False
    )
    model.build()
    variables = model.trainable_variables
    for variable in variables:
        variable.assign(np.ones(variable.shape))
    train = TrainConfig(optimizer="adamw", weight_decay=0.5, schedule="constant", learning_rate=0.1, warmup_steps=0)
    make_optimizer(train, 8).apply([ops.zeros(variable.shape) for variable in variables], variables)
    for variable in variables:
        kept = variable.name in ("bias", "gamma", "beta", "scale", "table")
        assert kept or variable.name == "kernel"
        value = ops.convert_to_numpy(variable)
        np.testing.assert_allclose(value, np.full_like(value, 1.0 if kept else 0.95), err_msg=variable.path)
