"""What can be searched over, in which forms."""

import keras_tuner
import pytest

from zoo import recipe as recipes
from zoo.errors import InputError
from zoo.search.space import Space, parse_over


def space_of(recipe, **over) -> Space:
    return Space(recipe, {path.replace("__", "."): values for path, values in over.items()})


def declared(space: Space) -> keras_tuner.HyperParameters:
    hps = keras_tuner.HyperParameters()
    space.declare(hps)
    return hps


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,2,4", [1, 2, 4]),
        ("2", [2]),
        ("2:5", [2, 3, 4, 5]),
        ("2:6:2", [2, 4, 6]),
    ],
)
def test_whole_numbers(tiny, text, values):
    assert list(declared(space_of(tiny, model__depth=text)).space[0].values) == values


def test_a_log_range_is_even_in_the_logarithm(tiny):
    (rate,) = declared(space_of(tiny, train__learning_rate="1e-4..1e-2:log")).space
    drawn = sorted(rate.random_sample(seed) for seed in range(400))
    assert drawn[0] >= 1e-4
    assert drawn[-1] <= 1e-2
    assert 0.5e-3 < drawn[200] < 2e-3


def test_a_whole_log_range_has_both_ends(tiny):
    (depth,) = declared(space_of(tiny, model__depth="1:4:log")).space
    assert {depth.random_sample(seed) for seed in range(200)} == {1, 2, 3, 4}


def test_values_come_back_as_they_were_given(tiny):
    """KerasTuner's choices are of one type and never None; a recipe's need not be."""
    choices = {
        "model.feed_forward": (None, 32),
        "train.ema": (None, 0.5, 0.9),
        "train.learning_rate": (1, 0.5),
        "train.jit": (True, False),
        "model.position": ("none", "rotary"),
        "task.options.longest": (8, "9", [1]),
    }
    for path, values in choices.items():
        space = Space(tiny, {path: values})
        (hp,) = declared(space).space
        back = [space.changes({path: encoded})[path] for encoded in hp.values]
        assert back == list(values)
        assert list(map(type, back)) == list(map(type, values)) or path == "train.learning_rate"


def test_the_recipe_has_the_default(tiny):
    hps = declared(space_of(tiny, model__num_heads="1,2,4", model__depth="2:6", train__learning_rate="1e-5..1e-1:log"))
    defaults = {hp.name: hp.default for hp in hps.space}
    current = {"model.num_heads": 2, "model.depth": max(2, tiny.model.depth), "train.learning_rate": 3e-3}
    assert defaults == pytest.approx(current)


def test_text_in_a_recipe_and_lists_mean_the_same(tiny):
    listed, text = space_of(tiny, model__num_heads=(1, 2)), space_of(tiny, model__num_heads="1,2")
    assert listed.dimensions == text.dimensions
    assert Space(tiny.override({"search": {"model.num_heads": (1, 2)}})).dimensions == text.dimensions


def test_a_condition(tiny):
    space = space_of(tiny, model__attention="multi_head,relative if model.position=none", model__position="none,rotary")
    assert [d.path for d in space.dimensions] == ["model.position", "model.attention"]
    hps = declared(space)
    attention = hps.space[1]
    for position, active in (("none", True), ("rotary", False)):
        hps.values["model.position"] = position
        assert hps.is_active(attention) == active


def test_options_are_searched_for_the_kinds_that_have_them(tiny):
    space = space_of(
        tiny,
        model__attention="multi_head,relative,local",
        model__attention_options__max_distance="4,8",
        model__attention_options__query_chunks="1,2",
    )
    conditions = {d.path.rpartition(".")[2]: d.parent_values for d in space.dimensions}
    assert conditions["max_distance"] == ("relative",)
    assert conditions["query_chunks"] == ()


@pytest.mark.parametrize(
    ("over", "said"),
    [
        ({}, "name what to search over"),
        ({"model.num_head": "1,2"}, "model.num_heads"),
        ({"model.depth": "x,y"}, "a whole number"),
        ({"model.depth": "5:2"}, "from a lower to a higher"),
        ({"model.depth": "1:5:-1"}, "steps of a range are above 0"),
        ({"model.depth": "0.5..2"}, "a whole number"),
        ({"train.learning_rate": "0..1:log"}, "begins above 0"),
        ({"train.learning_rate": "1e-4..1e-2:0.5:log"}, "factors above 1"),
        ({"model.depth": "2,2"}, "each once"),
        ({"model.depth": ()}, "name values"),
        ({"model.depth": 3}, "a list of values or a range"),
        ({"plugins": "a,b"}, "can't be searched"),
        ({"model.depth": "1,2 if model.position=none"}, "whose values are not searched"),
        ({"model.depth": "1,2 if model.position=learned", "model.position": "none,rotary"}, "which is not searched"),
        ({"model.depth": "1,2 if nonsense", "model.position": "none,rotary"}, "write the condition"),
        (
            {"model.depth": "1,2 if model.position=none", "model.position": "none,rotary if model.depth=1"},
            "depends on itself",
        ),
        ({"model.attention": "multi_head,local", "model.attention_options.nothing": "1,2"}, "has the option 'nothing'"),
    ],
)
def test_what_can_not_be_searched(tiny, over, said):
    with pytest.raises(InputError, match=said):
        Space(tiny, over)


def test_flags(tiny):
    assert parse_over(["model.depth=1:2", "model.position=none,rotary if model.depth=1"]) == {
        "model.depth": "1:2",
        "model.position": "none,rotary if model.depth=1",
    }
    for wrong in (["model.depth"], ["model.depth="], ["model.depth=1", "model.depth=2"]):
        with pytest.raises(InputError):
            parse_over(wrong)


@pytest.mark.parametrize(
    ("text", "values"),
    [("0..0.3:0.1", (0.0, 0.1, 0.2, 0.3)), ("1e-4..1e-2:10:log", (1e-4, 1e-3, 1e-2)), ("0.1..0.5:0.3", (0.1, 0.4))],
)
def test_steps_of_numbers(tiny, text, values):
    assert space_of(tiny, train__learning_rate=text).dimensions[0].values == values


def test_what_is_filled_up_on_the_way_to_a_worker_changes_nothing(tiny):
    """KerasTuner's protocol buffers give a setting whose condition does not hold a value all the same."""
    over = {"model__position": "none,rotary", "model__attention": "relative,multi_head if model.position=none"}
    space = space_of(tiny, **over)
    hps = declared(space)
    hps.values = {"model.position": "rotary"}
    sent = keras_tuner.HyperParameters.from_proto(hps.to_proto())
    assert "model.attention" in sent.values
    assert space.changes(sent.values) == {"model.position": "rotary"}


def test_the_space_of_a_recipe():
    recipe = recipes.load("number_words")
    assert [d.path for d in Space(recipe).dimensions] == list(recipe.search)
    assert len(declared(Space(recipe)).space) == len(recipe.search)
