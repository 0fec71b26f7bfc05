import pathlib
import typing

import pytest

from zoo import recipe as recipes
from zoo import registry
from zoo.errors import InputError
from zoo.layers.attention.base import CAPABILITIES, Attention
from zoo.layers.position.base import Position
from zoo.recipe import Recipe, TaskConfig
from zoo.tasks.base import Task
from zoo.training.build import build_model, build_task
from zoo.training.check import check, settings_of

RECIPE = Recipe(task=TaskConfig("copy"))


def refused(changes: dict, recipe: Recipe = RECIPE) -> str:
    with pytest.raises(InputError) as error:
        check(recipe.override(changes))
    assert "\n" not in str(error.value)
    return str(error.value)


# What is filled in


def test_every_default_is_filled_in():
    resolved = check(RECIPE)
    model = resolved.model
    assert (model.attention, model.position) == ("multi_head", "sinusoidal")
    assert None not in (model.num_heads, model.depth, model.width, model.dropout)
    assert model.options["norm_first"] is True
    assert model.attention_options["use_bias"] is True
    assert model.position_options == {
        "base": 10000.0,
        "concatenate": False,
        "random_offset": 0,
        "randomized": None,
        "spacing": 1,
    }
    assert resolved.task.options["symbols"] == 8
    assert resolved.train == RECIPE.train


def test_what_is_set_stays():
    changes = {
        "model.num_heads": 8,
        "model.options.gated": True,
        "model.attention_options.use_bias": False,
        "model.position_options.base": 100.0,
        "task.options.symbols": 3,
    }
    resolved = check(RECIPE.override(changes))
    assert {path: recipes.flatten(resolved)[path] for path in changes} == changes


@pytest.mark.parametrize("architecture", ["transformer", "decoder_only", "encoder_only"])
def test_a_resolved_recipe_is_a_fixed_point_also_through_json(architecture):
    resolved = check(RECIPE.override({"model.architecture": architecture}))
    assert check(resolved) == resolved
    assert recipes.from_json(resolved.to_json()) == resolved


def test_what_a_task_says_of_its_data_is_no_option():
    resolved = check(RECIPE)
    assert not {"source_vocabulary", "target_vocabulary", "max_length"} & resolved.model.options.keys()
    assert "has no option 'max_length'" in refused({"model.options.max_length": 8})


def test_the_data_folder_becomes_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    translation = RECIPE.override({"task.name": "translation", "task.options": {}, "task.data_dir": "data"})
    assert check(translation).task.data_dir == str((tmp_path / "data").resolve())
    assert "reads no folder" in refused({"task.data_dir": "data"})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model.options.cross_attention": "nope"}, "unknown attention 'nope'"),
        ({"model.options.norm": "lyer"}, "did you mean 'layer'"),
        ({"model.options.attention_dropout": 1.5}, "model.options.attention_dropout must be at least 0 and below 1"),
        ({"model.options.decoder_depth": "x"}, "model.options.decoder_depth must be a whole number or none"),
    ],
)
def test_what_only_the_architecture_knows_is_refused_too(changes, said):
    assert said in refused(changes)


def test_options_typed_before_their_type_was_known():
    """The command line gives "none" and numbers as they look; the option says what they are."""
    resolved = check(RECIPE.override({"model.options.norm": "none", "model.options.decoder_depth": "none"}))
    assert resolved.model.options["norm"] == "none"
    assert resolved.model.options["decoder_depth"] is None
    files = {"task.name": "translation", "task.options": {"test": 2016}, "task.data_dir": "."}
    assert check(RECIPE.override(files)).task.options["test"] == "2016"


def test_a_resolved_recipe_builds_what_it_says(tmp_path):
    resolved = check(RECIPE.override({"model.width": 16, "model.num_heads": 2, "model.depth": 3}))
    task = build_task(resolved)
    task.prepare(tmp_path)
    model = build_model(resolved, task)
    config = model.get_config()
    assert {name: config[name] for name in settings_of(resolved.model)} == settings_of(resolved.model)
    assert len(model.encoder.blocks) == 3


# Names


@pytest.mark.parametrize(
    ("path", "wrong", "near"),
    [
        ("task.name", "cpoy", "copy"),
        ("model.architecture", "tranformer", "transformer"),
        ("model.attention", "multi_haed", "multi_head"),
        ("model.position", "sinusodal", "sinusoidal"),
        ("train.schedule", "naom", "noam"),
        ("train.optimizer", "adamww", "adamw"),
        ("train.precision", "float31", "float32"),
        ("train.backend", "tensorflw", "tensorflow"),
        ("train.monitor", "exact_mach", "exact_match"),
    ],
)
def test_an_unknown_name_gives_the_near_and_all(path, wrong, near):
    message = refused({path: wrong})
    assert repr(wrong) in message
    assert f"did you mean {near!r}" in message
    assert "there are: " in message


# Options and types


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.options.gaetd": True}, "architecture 'transformer' has no option 'gaetd' (did you mean 'gated'?)"),
        ({"model.options.gated": 1}, "model.options.gated must be true or false, not 1"),
        ({"model.options.head_dim": "x"}, "model.options.head_dim must be a whole number or none, not 'x'"),
        ({"model.options.name": "x"}, "has no option 'name'"),
        ({"model.options.dtype": "x"}, "has no option 'dtype'"),
        ({"model.architecture": "decoder_only", "model.options.share_embeddings": True}, "has no option 'share_emb"),
        ({"model.attention_options.window": 3}, "attention 'multi_head' has no option 'window'"),
        ({"model.attention_options.use_bias": "no"}, "model.attention_options.use_bias must be true or false"),
        ({"model.attention_options.num_heads": 3}, "attention 'multi_head' has no option 'num_heads'"),
        ({"model.attention_options.causal": True}, "attention 'multi_head' has no option 'causal'"),
        ({"model.position_options.bass": 1.0}, "position 'sinusoidal' has no option 'bass' (did you mean 'base'?)"),
        ({"model.position_options.base": "x"}, "model.position_options.base must be a number, not 'x'"),
        ({"model.position": "none", "model.position_options.base": 2.0}, "position 'none' has no option 'base'"),
        ({"task.options.symbol": 3}, "task 'copy' has no option 'symbol' (did you mean 'symbols'?)"),
        ({"task.options.symbols": "3"}, "task.options.symbols must be a whole number, not '3'"),
        ({"task.options.data_dir": "x"}, "task 'copy' has no option 'data_dir'"),
    ],
)
def test_an_option_that_is_not_there_or_of_another_type(changes, message):
    assert message in refused(changes)


# Numbers


@pytest.mark.parametrize("name", ["num_heads", "depth", "width", "feed_forward"])
@pytest.mark.parametrize("value", [0, -1])
def test_sizes_are_at_least_1(name, value):
    message = refused({f"model.{name}": value})
    assert f"model.{name} must be at least 1" in message or "heads don't divide" in message


@pytest.mark.parametrize(
    ("path", "values", "message"),
    [
        ("train.steps", [0, -1], "at least 1"),
        ("train.batch_tokens", [0], "at least 1"),
        ("train.buckets", [0], "at least 1"),
        ("train.validate_every", [0], "at least 1"),
        ("train.warmup_steps", [-1], "at least 0"),
        ("train.decode_validation", [-1], "at least 0"),
        ("train.samples", [-1], "at least 0"),
        ("train.patience", [-1], "at least 0"),
        ("train.seed", [-1], "at least 0"),
        ("train.seed", [2**32], "below 2 ** 32"),
        ("train.learning_rate", [0, -0.1], "above 0"),
        ("train.clip_norm", [0, -1.0], "above 0"),
        ("train.epsilon", [0], "above 0"),
        ("train.ema", [0], "above 0"),
        ("train.ema", [1, 1.5], "below 1"),
        ("train.label_smoothing", [-0.1, 1], "at least 0 and below 1"),
        ("train.beta_1", [1], "below 1"),
        ("train.beta_2", [1], "below 1"),
        ("model.dropout", [-0.1, 1, 1.5], "at least 0 and below 1"),
        ("train.weight_decay", [-0.1], "at least 0"),
    ],
)
def test_numbers_out_of_range(path, values, message):
    for value in values:
        said = refused({path: value})
        assert path in said and message in said and str(value) in said


@pytest.mark.parametrize(
    "changes",
    [
        {"train.patience": 0, "train.samples": 0, "train.warmup_steps": 0, "train.seed": 0},
        {"train.patience": None, "train.ema": None, "train.clip_norm": None},
        {"model.dropout": 0, "train.label_smoothing": 0, "train.beta_1": 0},
        {"train.seed": 2**32 - 1, "train.ema": 0.5},
    ],
)
def test_numbers_just_in_range(changes):
    assert recipes.flatten(check(RECIPE.override(changes))).items() >= changes.items()


def test_heads_must_divide_the_width():
    assert refused({"model.num_heads": 3, "model.width": 16}) == (
        "3 heads don't divide the width 16; change num_heads or width"
    )
    check(RECIPE.override({"model.num_heads": 3, "model.width": 16, "model.options.head_dim": 4}))


# Settings that would have no effect, or lack what they need


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train.weight_decay": 0.1}, "train.weight_decay has no effect with adam"),
        ({"train.monitor": "exact_match"}, "set train.decode_validation"),
        ({"train.schedule": "cosine"}, "train.learning_rate is needed with the schedule 'cosine'"),
        ({"train.schedule": "constant"}, "train.learning_rate is needed with the schedule 'constant'"),
        ({"train.monitor": "bleu", "train.decode_validation": 3}, "train.monitor has no 'bleu'"),
    ],
)
def test_settings_that_do_not_go_together(changes, message):
    assert message in refused(changes)


def test_settings_that_do():
    check(RECIPE.override({"train.weight_decay": 0.1, "train.optimizer": "adamw"}))
    check(RECIPE.override({"train.monitor": "exact_match", "train.decode_validation": 1}))
    check(RECIPE.override({"train.schedule": "cosine", "train.learning_rate": 1e-3}))


# What kinds, schemes, architectures and tasks ask of each other


@pytest.mark.parametrize(
    ("architecture", "lacking"),
    [
        ("transformer", "causal"),
        ("transformer", "bidirectional"),
        ("transformer", "mask"),
        ("decoder_only", "causal"),
        ("encoder_only", "bidirectional"),
        ("encoder_only", "mask"),
    ],
)
def test_attention_must_support_what_the_architecture_needs(registered, architecture, lacking):
    kind = type("Kind", (Attention,), {"supports": CAPABILITIES - {lacking}})
    registered(registry.attention, "check_test_kind", kind)
    message = refused({"model.architecture": architecture, "model.attention": "check_test_kind"})
    assert message == (
        f"attention 'check_test_kind' does not support {lacking}, which architecture {architecture!r} needs"
    )


@pytest.mark.parametrize("stage", ["none", "embedding", "rotation", "bias"])
def test_attention_must_support_the_stage_of_the_position(registered, stage):
    kind = type("Kind", (Attention,), {"supports": CAPABILITIES - {"rotation", "bias"}})
    registered(registry.attention, "check_test_kind", kind)
    registered(registry.position, "check_test_scheme", type("Scheme", (Position,), {"stage": stage}))
    check(RECIPE.override({"model.position": "check_test_scheme"}))  # with multi_head, any
    changes = {"model.attention": "check_test_kind", "model.position": "check_test_scheme"}
    if stage in ("none", "embedding"):
        check(RECIPE.override(changes))
    else:
        assert refused(changes) == (
            f"attention 'check_test_kind' does not support {stage}, which position 'check_test_scheme' needs"
        )


def test_a_task_must_have_the_layout_of_the_architecture():
    message = refused({"task.name": "number_words", "model.architecture": "encoder_only"})
    assert "task 'number_words' has no batches of the layout 'encoder' that 'encoder_only' needs" in message
    assert "it has: decoder, encoder_decoder" in message


class Optioned(Attention):
    """A kind with options, as a plugin may write one."""

    def __init__(
        self,
        num_heads: int,
        head_dim: int,
        *,
        window: typing.Optional[int] = None,  # noqa: UP045  a plugin may write it so
        mode: typing.Literal["soft", "hard"] = "soft",
        **kwargs,
    ):
        super().__init__(num_heads, head_dim, **kwargs)


class Wanting(Attention):
    """A kind with an option that has no default."""

    def __init__(self, num_heads: int, head_dim: int, *, window: int, **kwargs):
        super().__init__(num_heads, head_dim, **kwargs)


def test_options_of_a_plugin_are_checked_by_its_hints(registered):
    registered(registry.attention, "check_test_optioned", Optioned)
    base = RECIPE.override({"model.attention": "check_test_optioned"})
    assert check(base).model.attention_options.items() >= {"window": None, "mode": "soft"}.items()
    check(base.override({"model.attention_options": {"window": 3, "mode": "hard"}}))
    assert "window must be a whole number or none, not 'x'" in refused({"model.attention_options.window": "x"}, base)
    assert "mode must be 'soft' or 'hard', not 'x'" in refused({"model.attention_options.mode": "x"}, base)


def test_an_option_without_a_default_is_asked_for(registered):
    registered(registry.attention, "check_test_wanting", Wanting)
    base = RECIPE.override({"model.attention": "check_test_wanting"})
    assert refused({}, base) == "attention 'check_test_wanting' needs model.attention_options.window"
    assert check(base.override({"model.attention_options.window": 3})).model.attention_options["window"] == 3


def test_an_architecture_names_the_setting_it_lacks(registered):
    from zoo.architectures.base import Architecture

    class Needs(Architecture):
        def __init__(self, *, width: int, extra: int, **kwargs):
            super().__init__(**kwargs)

    registered(registry.architecture, "check_test_needs", Needs)
    message = refused({"model.architecture": "check_test_needs"})
    assert message == "architecture 'check_test_needs' needs model.width, model.options.extra"


def test_a_default_that_json_cannot_hold_is_refused(registered):
    class Default(Task):
        layouts = frozenset({"encoder_decoder"})

        def __init__(self, *, shape: tuple = (3, 3), **kwargs):
            super().__init__(**kwargs)

    registered(registry.task, "check_test_default", Default)
    assert "task.options.shape must be a value that JSON can hold" in refused({"task.name": "check_test_default"})


def test_checking_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(RECIPE)
    refused({"train.steps": 0})
    assert list(pathlib.Path(tmp_path).iterdir()) == []
