import subprocess
import sys

import pytest

from zoo import plugin, registry
from zoo.errors import InputError, UnknownNameError
from zoo.registry import Registry

HEAVY = {"keras", "tensorflow", "jax", "torch"}


@pytest.fixture
def held(tmp_path, monkeypatch):
    """A registry whose package declares three names, in modules that say when they are imported."""
    package = f"held_{tmp_path.name}"
    folder = tmp_path / package
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    module = '"""A module."""\nfrom {package} import held\n\n\n'
    module += '@held.register("{name}")\nclass {cls}:\n    """A {name}.\n\n    More.\n    """\n'
    (folder / "horse.py").write_text(module.format(package=package, name="horse", cls="Horse"))
    (folder / "both.py").write_text(
        module.format(package=package, name="cat", cls="Cat") + '\n\n@held.register("dog")\nclass Dog:\n    pass\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    held = Registry("animal", package)
    __import__(package)
    sys.modules[package].held = held
    sys.modules[package].__getattr__ = held.declare(package, {"horse": "Horse", "cat": "both:Cat", "dog": "both:Dog"})
    held.package = sys.modules[package]
    yield held
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def make(module: str, name: str = "Thing", doc: str | None = None) -> type:
    return type(name, (), {"__module__": module, "__doc__": doc})


def imported(held) -> set[str]:
    return {name.rpartition(".")[2] for name in sys.modules if name.startswith(held.package.__name__ + ".")}


def test_names_and_summaries_import_nothing(held):
    assert held.names() == ["cat", "dog", "horse"]
    assert held.summary("horse") == "A horse."
    assert held.summary("dog") == ""
    assert held.module("cat") == f"{held.package.__name__}.both"
    held.require("horse")
    assert imported(held) == set()


def test_the_first_use_imports_what_is_used(held):
    assert held.get("horse").__name__ == "Horse"
    assert imported(held) == {"horse"}
    assert held.get("cat") is held.package.Cat
    assert imported(held) == {"horse", "both"}
    assert held.package.Dog is held.get("dog")
    with pytest.raises(AttributeError, match="Cow"):
        _ = held.package.Cow


def test_summary_and_module_are_the_same_once_imported(held):
    before = [(held.summary(name), held.module(name)) for name in held.names()]
    for name in held.names():
        held.get(name)
    assert [(held.summary(name), held.module(name)) for name in held.names()] == before


def test_what_is_registered_is_got(held):
    cls = make("a", doc="\n    A cow.\n\n    More.")
    assert held.register("cow")(cls) is cls
    assert held.get("cow") is cls
    assert held.names() == ["cat", "cow", "dog", "horse"]
    assert held.summary("cow") == "A cow."
    assert held.module("cow") == "a"


def test_a_second_class_of_a_name_is_refused_with_both_modules(held):
    first = held.register("cow")(make("one.module"))
    with pytest.raises(ValueError, match=r"animal 'cow' of other.module is taken by one.module"):
        held.register("cow")(make("other.module"))
    with pytest.raises(ValueError, match=r"taken by one.module"):
        held.register("cow")(make("one.module", "OtherThing"))
    assert held.get("cow") is first


@pytest.mark.parametrize("first_used", [False, True])
def test_a_built_in_name_is_taken_before_it_is_imported(held, first_used):
    if first_used:
        held.get("horse")
    with pytest.raises(ValueError, match=rf"animal 'horse' of mine is taken by {held.package.__name__}.horse"):
        held.register("horse")(make("mine"))
    assert held.get("horse").__name__ == "Horse"


@pytest.mark.parametrize("module", ["__main__", "my.module"])
def test_the_same_class_defined_again_takes_its_own_place(held, module):
    held.register("cow")(make(module))
    again = held.register("cow")(make(module))
    assert held.get("cow") is again


def test_an_unknown_name_lists_the_near_and_all(held):
    with pytest.raises(UnknownNameError) as error:
        held.get("hose")
    assert str(error.value) == "unknown animal 'hose' (did you mean 'horse'?); there are: cat, dog, horse"
    with pytest.raises(UnknownNameError) as error:
        held.require("zzz")
    assert str(error.value) == "unknown animal 'zzz'; there are: cat, dog, horse"
    assert imported(held) == set()


@pytest.mark.parametrize("name", registry.ALL)
def test_the_registries_have_what_they_declare(name):
    held = registry.ALL[name]
    assert held.kind == name
    assert held.names()
    for item in held.names():
        cls = held.get(item)
        assert held.module(item) == cls.__module__
        assert held.summary(item), f"{name} {item} has no docstring"
    with pytest.raises(InputError, match=f"unknown {name} "):
        held.get("no such thing")


def test_listing_loads_neither_keras_nor_a_backend():
    code = """
import sys
from zoo import registry
for held in registry.ALL.values():
    for name in held.names():
        held.summary(name), held.module(name), held.require(name)
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "zoo.layers.attention" in done.stdout.split()
    assert not HEAVY & set(done.stdout.split())


PLUGIN = """
import keras
from zoo import registry


@registry.attention.register("registry_test_kind")
class Kind(keras.layers.Layer):
    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.dense = keras.layers.Dense(units, name="dense")

    def build(self, shape):
        self.dense.build(shape)
        self.built = True

    def call(self, x):
        return self.dense(x)

    def get_config(self):
        return {**super().get_config(), "units": self.units}
"""

LOADS = """
import sys
import keras, numpy
from zoo import plugin
model, plugin_file = sys.argv[1:]
try:
    keras.saving.load_model(model)
    sys.exit("it loads without its plugin: this test shows nothing")
except TypeError:
    plugin.load(plugin_file)
out = keras.saving.load_model(model)(numpy.ones((1, 4), "float32"))
print(keras.ops.convert_to_numpy(out).tolist())
"""


def test_a_registered_layer_loads_in_a_fresh_process(tmp_path, monkeypatch):
    import keras
    import numpy as np

    monkeypatch.setattr(registry.attention, "_classes", dict(registry.attention._classes))
    file, saved = tmp_path / "kind.py", tmp_path / "model.keras"
    file.write_text(PLUGIN)
    plugin.load(str(file))
    cls = registry.attention.get("registry_test_kind")
    assert keras.saving.get_registered_name(cls) == "zoo>attention.registry_test_kind"
    model = keras.Sequential([keras.Input((4,)), cls(3)])
    model.save(saved)
    done = subprocess.run([sys.executable, "-c", LOADS, saved, file], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = keras.ops.convert_to_numpy(model(np.ones((1, 4), "float32")))
    np.testing.assert_allclose(np.array(eval(done.stdout.splitlines()[-1])), expected, rtol=1e-5)


def test_a_class_that_is_no_layer_needs_no_keras():
    code = """
import sys
from zoo import registry
registry.task.register("x")(type("X", (), {}))
assert "keras" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
