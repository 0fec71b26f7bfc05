import json
import typing

import pytest

from zoo import recipe as recipes
from zoo.errors import InputError
from zoo.recipe import ModelConfig, Recipe, TaskConfig, TrainConfig

RECIPE = Recipe(task=TaskConfig("copy"))

# Of every type that a setting has: a value, and values that are none of it. A bool is not a number here.
GOOD = {str: "x", int: 3, float: 0.5, bool: True, dict: {"a": 1}}
WRONG = {
    str: [3, True, ["x"]],
    int: [True, 1.5, "3", [3]],
    float: [True, "0.5"],
    bool: [1, "true"],
    dict: [[("a", 1)], "a"],
}


def settings() -> dict[str, tuple[type, bool]]:
    """Path -> type, and whether it may be None, as the dataclasses say."""
    found = {}
    for section, cls in (("model", ModelConfig), ("task", TaskConfig), ("train", TrainConfig)):
        for name, hint in typing.get_type_hints(cls).items():
            options = typing.get_args(hint) if type(None) in typing.get_args(hint) else (hint,)
            found[f"{section}.{name}"] = (typing.get_origin(options[0]) or options[0], type(None) in options)
    return found


SETTINGS = settings()


# Overriding


def value_at(recipe, path):
    section, name = path.split(".")
    return getattr(getattr(recipe, section), name)


def test_there_are_settings():
    assert {"model.num_heads", "task.name", "train.steps"} <= SETTINGS.keys()


@pytest.mark.parametrize("path", SETTINGS)
def test_every_setting_is_overridden_alone(path):
    hint, _ = SETTINGS[path]
    changed = RECIPE.override({path: GOOD[hint]})
    assert value_at(changed, path) == GOOD[hint]
    others = [other for other in SETTINGS if other != path]
    assert [value_at(changed, other) for other in others] == [value_at(RECIPE, other) for other in others]


@pytest.mark.parametrize("path", SETTINGS)
def test_a_wrong_type_is_refused(path):
    hint, may_be_none = SETTINGS[path]
    for value in WRONG[hint] + ([] if may_be_none else [None]):
        with pytest.raises(InputError, match=f"^{path} must be "):
            RECIPE.override({path: value})


@pytest.mark.parametrize("path", [path for path, (_, may_be_none) in SETTINGS.items() if may_be_none])
def test_what_may_be_none(path):
    hint, _ = SETTINGS[path]
    assert value_at(RECIPE.override({path: GOOD[hint]}).override({path: None}), path) is None


def test_a_number_may_be_whole():
    assert RECIPE.override({"train.learning_rate": 1}).train.learning_rate == 1


def test_overriding_leaves_the_recipe_as_it_was():
    before = RECIPE.to_json()
    RECIPE.override({"model.num_heads": 8, "task.options.symbols": 3})
    assert RECIPE.to_json() == before


def test_several_changes_and_none():
    changed = RECIPE.override({"model.num_heads": 8, "model.depth": 3})
    assert (changed.model.num_heads, changed.model.depth) == (8, 3)
    assert RECIPE.override({}) == RECIPE


def test_options_are_changed_one_by_one():
    changed = RECIPE.override({"task.options.symbols": 3}).override({"task.options.longest": 9})
    assert changed.task.options == {"symbols": 3, "longest": 9}
    assert changed.override({"task.options": {}}) == RECIPE


def test_plugins_and_search_are_settings():
    changed = RECIPE.override({"plugins": ("a.py",), "search": {"model.num_heads": (2, 4)}})
    assert changed.plugins == ("a.py",)
    assert changed.search == {"model.num_heads": (2, 4)}


@pytest.mark.parametrize(
    ("path", "close"),
    [
        ("model.num_head", "model.num_heads"),
        ("model.learning_rate", "train.learning_rate"),
        ("trian.steps", "train.steps"),
        ("num_heads", "model.num_heads"),
        ("tasks", "task.name"),
    ],
)
def test_an_unknown_path_names_the_close_ones(path, close):
    with pytest.raises(InputError, match=f"unknown setting '{path}'.*did you mean.*'{close}'"):
        RECIPE.override({path: 1})


@pytest.mark.parametrize("path", ["", ".", "model.", "model.depth.x", "model.options.a.b", "train.steps.", "qqqqqqqq"])
def test_an_unknown_path(path):
    with pytest.raises(InputError, match="unknown setting"):
        RECIPE.override({path: 1})


@pytest.mark.parametrize("path", ["model", "task", "train"])
def test_a_group_is_no_setting(path):
    with pytest.raises(InputError, match=f"'{path}' is a group of settings"):
        RECIPE.override({path: 1})


@pytest.mark.parametrize(
    "change",
    [
        {"plugins": "a.py"},
        {"plugins": ["a.py"]},
        {"plugins": (1,)},
        {"search": {"model.num_heads": [2, 4]}},
        {"search": {1: (2, 4)}},
        {"search": ()},
    ],
)
def test_wrong_plugins_and_search(change):
    with pytest.raises(InputError, match="must be"):
        RECIPE.override(change)


@pytest.mark.parametrize("value", [(3, 3), {1, 2}, object(), {1: 2}, float("nan"), [1, (2,)]])
def test_an_option_must_survive_json(value):
    with pytest.raises(InputError, match=r"task.options.x must be a value that JSON can hold"):
        RECIPE.override({"task.options.x": value})
    with pytest.raises(InputError, match=r"task.options.x must be a value that JSON can hold"):
        Recipe(task=TaskConfig("copy", options={"x": value}))


def test_types_are_checked_when_a_recipe_is_made():
    with pytest.raises(InputError, match=r"model.depth must be a whole number or none, not 'two'"):
        Recipe(task=TaskConfig("copy"), model=ModelConfig(depth="two"))


# JSON


@pytest.mark.parametrize(
    "recipe",
    [
        RECIPE,
        Recipe(
            task=TaskConfig("translation", data_dir="/x", options={"source_language": "é", "longest_words": None}),
            model=ModelConfig(attention_options={"window": [1, 2.5]}, options={"gated": True}, dropout=0),
            train=TrainConfig(learning_rate=1e-3, ema=0.99, jit=False, epsilon=1e-9),
            search={"model.num_heads": (2, 4), "model.position": ("none", "learned")},
            plugins=("a.py", "b"),
        ),
    ],
)
def test_json_gives_an_equal_recipe(recipe):
    again = recipes.from_json(recipe.to_json())
    assert again == recipe
    assert again.to_json() == recipe.to_json()


@pytest.mark.parametrize("text", ["", "null", "[]", "{", "{}", '"copy"'])
def test_other_json_is_no_recipe(text):
    with pytest.raises(InputError, match="not a recipe"):
        recipes.from_json(text)


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [("train", "stepz", 1), ("train", "steps", "many"), ("model", "depth", True), ("task", "options", {"a": {}, 1: 2})],
)
def test_json_of_other_settings_is_no_recipe(section, name, value):
    data = json.loads(RECIPE.to_json())
    data[section][name] = value
    if name == "options":  # every name of an option is text, in JSON, so that this is a recipe
        assert recipes.from_json(json.dumps(data)).task.options == {"a": {}, "1": 2}
        return
    with pytest.raises(InputError, match=name):
        recipes.from_json(json.dumps(data))


def test_an_unknown_section_in_json():
    with pytest.raises(InputError, match="modle"):
        recipes.from_json(json.dumps({**json.loads(RECIPE.to_json()), "modle": {}}))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"task": 1}'])
def test_a_damaged_file_is_named(tmp_path, content):
    path = tmp_path / "recipe.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"{str(path)!r} is damaged"):
        recipes.read_json(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"recipe.json' cannot be read: No such file"):
        recipes.read_json(tmp_path / "recipe.json")


def test_flatten_has_every_setting_and_option():
    flat = recipes.flatten(RECIPE.override({"task.options.symbols": 3, "model.options.gated": True}))
    assert flat["task.options.symbols"] == 3
    assert flat["model.options.gated"] is True
    assert {path for path, (hint, _) in SETTINGS.items() if hint is not dict} <= flat.keys()


# Values that are typed


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("model.depth=4", "model.depth", 4),
        (" model.depth =4", "model.depth", 4),
        ("model.depth=none", "model.depth", None),
        ("model.depth=null", "model.depth", None),
        ("train.learning_rate=1e-3", "train.learning_rate", 1e-3),
        ("train.learning_rate=1", "train.learning_rate", 1),
        ("train.jit=true", "train.jit", True),
        ("train.jit=False", "train.jit", False),
        ("train.jit=none", "train.jit", None),
        ("train.schedule=3", "train.schedule", "3"),
        ("task.name=a=b", "task.name", "a=b"),
        ("task.data_dir=/a b", "task.data_dir", "/a b"),
        ("task.data_dir=null", "task.data_dir", None),
        ("model.position=none", "model.position", "none"),  # a positional scheme
        ("task.options.target_language=fr", "task.options.target_language", "fr"),
        ("task.options.symbols=3", "task.options.symbols", 3),
        ("task.options.x='3'", "task.options.x", "3"),
        ("task.options.x=true", "task.options.x", True),
        ("task.options.x=none", "task.options.x", "none"),
        ("task.options.x=[1, 2]", "task.options.x", [1, 2]),
        ("task.options.x=", "task.options.x", ""),
        ("search={'model.depth': (1, 2)}", "search", {"model.depth": (1, 2)}),
    ],
)
def test_a_typed_setting(text, path, value):
    found = recipes.parse_setting(text)
    assert found == (path, value)
    assert type(found[1]) is type(value)
    RECIPE.override(dict([found]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model.depth", "'model.depth' is not path=value"),
        ("", "'' is not path=value"),
        ("=3", "unknown setting ''"),
        ("model.dept=3", "did you mean 'model.depth'"),
        ("model.depth=two", "model.depth must be a whole number or none, not 'two'"),
        ("model.depth=2.0", "model.depth must be a whole number or none, not 2.0"),
        ("model.depth=true", "model.depth must be a whole number or none, not True"),
        ("model.depth=", "model.depth must be a whole number or none, not ''"),
        ("train.steps=none", "train.steps must be a whole number, not None"),
        ("train.learning_rate=fast", "train.learning_rate must be a number or none, not 'fast'"),
        ("train.jit=1", "train.jit must be true or false or none, not 1"),
        ("task.options.x=(1, 2)", "a list, not a tuple"),
        ("plugins=a.py", "plugins must be"),
    ],
)
def test_a_wrong_typed_setting(text, message):
    with pytest.raises(InputError) as error:
        RECIPE.override(dict([recipes.parse_setting(text)]))
    assert message in str(error.value)


# Types that kinds declare for their options


@pytest.mark.parametrize(
    ("hint", "good", "wrong"),
    [
        (typing.Any, [1, None, "x"], []),
        (int | None, [1, None], [1.0, True, "1"]),
        (typing.Optional[int], [1, None], [1.0, True, "1"]),  # noqa: UP045  a plugin may write it so
        (typing.Literal["a", "b"], ["a"], ["c", 1]),
        (list[int], [[], [1]], [["1"], (1,), 1]),
        (dict[str, int], [{}, {"a": 1}], [{"a": "b"}, {1: 1}]),
        (dict, [{}, {1: 2}], [[]]),
        (list | None, [[1], None], ["x"]),
        (typing.TypeVar("T"), [1, "x"], []),  # nothing to hold a value against
    ],
)
def test_declared_types(hint, good, wrong):
    assert all(recipes.accepts(hint, value) for value in good)
    assert not any(recipes.accepts(hint, value) for value in wrong)
    assert recipes.type_name(hint)
