"""Imports run down only, as ALLOWED says; BUILD says the same.

The checkers read files below a root and return what is wrong, one line each, so that they can be tried on a tree with
a planted fault.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# A layer is a module of zoo/ or a package of it. It may import itself, `zoo`, and these.
ALLOWED = {
    "zoo": set(),  # zoo/__init__.py: the public names, as strings
    "errors": set(),
    "tokens": set(),
    "quiet": set(),
    "whole": {"errors"},
    "recipe": {"errors"},
    "registry": {"errors"},
    "plugin": {"registry", "errors"},
    "layers": {"registry", "tokens", "errors"},
    "tasks": {"registry", "recipe", "tokens", "quiet", "whole", "errors"},
    "architectures": {"layers", "registry", "errors"},
    "generation": {"architectures", "layers", "tasks", "recipe", "registry", "tokens", "errors"},
    "inspect": {"whole", "generation", "architectures", "layers", "tokens", "errors"},
    "training": {
        *("inspect", "generation", "architectures", "layers", "tasks"),
        *("plugin", "recipe", "registry", "whole", "errors"),
    },
    "testing": {"architectures", "layers", "registry", "errors"},
    "bench": {"training", "layers", "plugin", "recipe", "registry", "whole", "errors"},
    "claims": {"whole", "training", "generation", "inspect", "layers", "recipe", "errors"},
    "search": {
        *("whole", "training", "inspect", "tasks", "layers", "plugin", "recipe", "registry", "quiet", "errors"),
    },
    "export": {"whole", "generation", "tasks", "tokens", "quiet", "errors"},
    "commands": {
        *(
            "bench",
            "claims",
            "export",
            "search",
            "inspect",
            "testing",
            "training",
            "generation",
            "architectures",
            "layers",
        ),
        *("tasks", "plugin", "recipe", "registry", "tokens", "quiet", "errors"),
    },
    "cli": {"commands", "claims", "search", "plugin", "recipe", "errors"},
}

BACKENDS = {"tensorflow", "tensorflow_text", "jax", "torch"}
HEAVY = BACKENDS | {"keras", "keras_tuner"}
BACKEND_FREE = ("layers", "architectures")

# Importing these loads neither Keras nor a backend, so that listing and --help are quick.
LIGHT = (
    *(
        "zoo",
        "zoo.errors",
        "zoo.recipe",
        "zoo.recipe.config",
        "zoo.recipe.files",
        "zoo.recipe.flags",
        "zoo.recipe.values",
        "zoo.registry",
        "zoo.plugin",
        "zoo.quiet",
        "zoo.cli",
        "zoo.commands",
        "zoo.commands.given",
        "zoo.claims",
        "zoo.commands.claiming",
        "zoo.commands.exporting",
        "zoo.commands.inspecting",
        "zoo.commands.looking",
        "zoo.commands.measuring",
        "zoo.commands.running",
        "zoo.commands.searching",
        "zoo.commands.tables",
        "zoo.generation",
        "zoo.generation.settings",
        "zoo.layers.configured",
        "zoo.search",
        "zoo.search.child",
        "zoo.search.results",
        "zoo.search.run",
        "zoo.search.settings",
        "zoo.search.space",
        "zoo.search.trial",
        "zoo.training",
        "zoo.training.devices",
        "zoo.training.run_directory",
        "zoo.tasks",
        "zoo.architectures",
        "zoo.whole",
    ),
    *("zoo.layers", "zoo.layers.attention", "zoo.layers.position"),
)


# Reading a tree


def files(root: Path, layer: str) -> list[Path]:
    """The Python files of a layer."""
    if layer == "zoo":
        return [path for path in [root / "zoo/__init__.py"] if path.is_file()]
    module = root / f"zoo/{layer}.py"
    return [module] if module.is_file() else sorted((root / "zoo" / layer).rglob("*.py"))


def module_name(root: Path, path: Path) -> str:
    """``zoo/layers/__init__.py`` is ``zoo.layers``."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def module_file(root: Path, name: str) -> Path | None:
    """The file of the module with this dotted name, if there is one."""
    path = root / name.replace(".", "/")
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


def public_names(root: Path) -> dict[str, str]:
    """``zoo.train`` -> ``zoo.training.train`` and so on: what ``zoo`` imports when it is first used."""
    for node in ast.parse((root / "zoo/__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_PUBLIC":
            return {f"zoo.{name}": module for name, module in ast.literal_eval(node.value).items()}
    return {}


def statements(tree: ast.AST, inside_functions: bool):
    """Every node of a file, or only what runs while it is imported."""
    for node in ast.iter_child_nodes(tree):
        if inside_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from statements(node, inside_functions)


def imports(root: Path, path: Path, inside_functions: bool = True) -> list[tuple[int, str]]:
    """Line and dotted name of all that a file imports; a public name counts as the module that it comes from."""
    public, found = public_names(root), []
    package = module_name(root, path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in statements(ast.parse(path.read_text()), inside_functions):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*start, *(node.module or "").split(".")]).strip(".")
            found += [(node.lineno, f"{source}.{alias.name}") for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "zoo":
            found.append((node.lineno, f"zoo.{node.attr}"))
    return [(line, public.get(name, name)) for line, name in found]


def layer_of(name: str) -> str | None:
    """The layer of a dotted name; None outside of ``zoo``."""
    top, *rest = name.split(".")
    if top != "zoo":
        return None
    return rest[0] if rest and not rest[0].startswith("__") else "zoo"


# The checkers


def upward_imports(root: Path) -> list[str]:
    faults = [f"{layer}: no such module or package in zoo/" for layer in ALLOWED if not files(root, layer)]
    for path in sorted((root / "zoo").rglob("*.py")):
        layer = layer_of(module_name(root, path))
        if layer not in ALLOWED:
            faults.append(f"{path.relative_to(root)}: layer {layer} is not in ALLOWED")
            continue
        for line, name in imports(root, path):
            target = layer_of(name)
            if target is not None and target not in ALLOWED[layer] | {layer, "zoo"}:
                faults.append(f"{path.relative_to(root)}:{line}: {layer} may not import {name}")
    return faults


def backend_imports(root: Path) -> list[str]:
    return [
        f"{path.relative_to(root)}:{line}: {layer} may not import {name}; keras.ops has it for all backends"
        for layer in BACKEND_FREE
        for path in files(root, layer)
        for line, name in imports(root, path)
        if name.split(".")[0] in BACKENDS
    ]


def heavy_imports(root: Path) -> list[str]:
    """Light modules import on loading only each other, of zoo, and no Keras."""
    faults = []
    for module in LIGHT:
        path = module_file(root, module)
        if path is None:
            faults.append(f"{module}: no such module")
            continue
        for line, name in imports(root, path, inside_functions=False):
            source = name if module_file(root, name) else name.rpartition(".")[0]
            if name.split(".")[0] in HEAVY or (layer_of(name) and source not in LIGHT):
                faults.append(f"{path.relative_to(root)}:{line}: {module} imports {name} while it loads")
    return faults


def recipe_imports(root: Path) -> list[str]:
    recipes = sorted((root / "recipes").glob("*.py"))
    if not recipes:
        return ["recipes/ is empty"]
    return [
        f"{path.relative_to(root)}:{line}: a recipe imports only zoo.recipe, not {name}"
        for path in recipes
        for line, name in imports(root, path)
        if name != "zoo.recipe" and not name.startswith("zoo.recipe.")
    ]


def hidden_in_utils(root: Path) -> list[str]:
    places = [root / place for place in ("zoo", "recipes", "plugins", "tests")]
    return [str(path.relative_to(root)) for place in places for path in place.rglob("utils.py")]


def build_differences(root: Path) -> list[str]:
    """What BUILD says otherwise than ALLOWED; a BUILD file has the syntax of Python."""
    targets = {}
    for node in ast.walk(ast.parse((root / "BUILD").read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "py_library":
            arguments = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            targets[ast.literal_eval(arguments["name"])] = arguments
    expected = {layer: below | {"zoo"} - {layer} for layer, below in ALLOWED.items()} | {"recipes": {"recipe"}}
    faults = [f"BUILD has no layer {name}" for name in sorted(expected.keys() - targets.keys())]
    faults += [f"BUILD has {name}, which is no layer" for name in sorted(targets.keys() - expected.keys())]
    for name in sorted(expected.keys() & targets.keys()):
        deps = {label.removeprefix(":") for label in ast.literal_eval(targets[name]["deps"])}
        if deps != expected[name]:
            faults.append(f"BUILD: {name} depends on {sorted(deps)}, not on {sorted(expected[name])}")
        if name == "recipes":
            sources = "glob(['recipes/*.py'])"
        elif (root / "zoo" / name).is_dir():
            sources = f"glob(['zoo/{name}/**/*.py'])"
        else:
            sources = f"['zoo/{'__init__' if name == 'zoo' else name}.py']"
        if targets[name]["srcs"] != sources:
            faults.append(f"BUILD: {name} is made of {targets[name]['srcs']}, not of {sources}")
    return faults


CHECKS = (upward_imports, backend_imports, heavy_imports, recipe_imports, hidden_in_utils, build_differences)


# This tree


@pytest.mark.parametrize("check", CHECKS)
def test_this_tree(check):
    assert check(ROOT) == []


def test_light_modules_load_no_keras():
    code = f"import sys; {'; '.join(f'import {module}' for module in LIGHT)}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "zoo.layers.attention" in loaded.split()
    assert not HEAVY & set(loaded.split())


# Trees with a planted fault


@pytest.fixture
def tree(tmp_path) -> Path:
    """A small tree without faults."""
    for layer in set(ALLOWED) - {"zoo"}:
        package = (ROOT / "zoo" / layer).is_dir()
        plant(tmp_path, f"zoo/{layer}/__init__.py" if package else f"zoo/{layer}.py", "import zoo\n")
    plant(tmp_path, "zoo/__init__.py", '_PUBLIC = {"train": "zoo.training.train"}\n')
    plant(tmp_path, "zoo/layers/attention/__init__.py", "from zoo import registry\n")
    plant(tmp_path, "zoo/layers/position/__init__.py", "from zoo import registry\n")
    plant(tmp_path, "zoo/layers/masks.py", "import keras\nfrom zoo.errors import InputError\n")
    plant(tmp_path, "zoo/cli.py", "def main():\n    from zoo.commands import running\n")
    plant(tmp_path, "zoo/recipe/__init__.py", "from zoo.errors import InputError\n")
    for module in LIGHT:
        if module.startswith("zoo.commands."):
            plant(tmp_path, module.replace(".", "/") + ".py", "def run():\n    from zoo.training import train\n")
        elif module_file(tmp_path, module) is None:
            plant(tmp_path, module.replace(".", "/") + ".py", "import zoo\n")
    plant(tmp_path, "zoo/generation/settings.py", "from zoo.errors import InputError\n")
    plant(tmp_path, "zoo/training/train.py", "import zoo\n")
    plant(tmp_path, "recipes/copy.py", "from zoo.recipe import Recipe\n")
    plant(tmp_path, "BUILD", (ROOT / "BUILD").read_text())
    return tmp_path


def plant(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.mark.parametrize("check", CHECKS)
def test_tree_without_faults(tree, check):
    assert check(tree) == []


@pytest.mark.parametrize(
    ("check", "path", "text"),
    [
        (upward_imports, "zoo/layers/masks.py", "import zoo.architectures.base\n"),
        (upward_imports, "zoo/layers/masks.py", "from zoo.recipe import Recipe\n"),
        (upward_imports, "zoo/layers/masks.py", "from zoo import recipe\n"),
        (upward_imports, "zoo/layers/masks.py", "from .. import recipe\n"),
        (upward_imports, "zoo/layers/masks.py", "from ..recipe import Recipe\n"),
        (upward_imports, "zoo/layers/masks.py", "from zoo import train\n"),
        (upward_imports, "zoo/layers/masks.py", "import zoo\n\nzoo.train\n"),
        (upward_imports, "zoo/layers/masks.py", "def f():\n    from zoo.tasks import base\n"),
        (upward_imports, "zoo/tasks/base.py", "from zoo import layers\n"),
        (upward_imports, "zoo/errors.py", "from zoo.registry import task\n"),
        (upward_imports, "zoo/training/train.py", "import zoo.cli\n"),
        (upward_imports, "zoo/__init__.py", "from zoo.training import train\n"),
        (upward_imports, "zoo/helpers.py", ""),
        (backend_imports, "zoo/layers/masks.py", "import tensorflow as tf\n"),
        (backend_imports, "zoo/layers/attention/local.py", "def f():\n    from jax import numpy\n"),
        (backend_imports, "zoo/architectures/transformer.py", "import torch.nn\n"),
        (heavy_imports, "zoo/registry.py", "import keras\n"),
        (heavy_imports, "zoo/cli.py", "if True:\n    from keras import ops\n"),
        (heavy_imports, "zoo/cli.py", "from zoo.training.train import train\n"),
        (heavy_imports, "zoo/cli.py", "from zoo import train\n"),
        (heavy_imports, "zoo/layers/position/__init__.py", "import zoo.layers.masks\n"),
        (heavy_imports, "zoo/layers/position/__init__.py", "from zoo.layers.position.base import Position\n"),
        (recipe_imports, "recipes/copy.py", "import keras\n"),
        (recipe_imports, "recipes/copy.py", "from zoo.recipes import Recipe\n"),
        (hidden_in_utils, "zoo/layers/utils.py", ""),
        (hidden_in_utils, "tests/utils.py", ""),
        (build_differences, "BUILD", ""),
    ],
)
def test_planted_fault(tree, check, path, text):
    plant(tree, path, text)
    assert check(tree), f"{check.__name__} does not see {text!r} in {path}"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('deps = [":recipe"],', 'deps = [":recipe", ":errors"],'),
        ('srcs = ["zoo/plugin.py"]', 'srcs = ["zoo/registry.py"]'),
        ('name = "tasks"', 'name = "jobs"'),
        ("zoo/layers/**/*.py", "zoo/layers/*.py"),
    ],
)
def test_fault_planted_in_build(tree, old, new):
    text = (tree / "BUILD").read_text()
    assert old in text
    plant(tree, "BUILD", text.replace(old, new))
    assert build_differences(tree)


def test_an_empty_tree_is_a_fault(tree):
    (tree / "recipes/copy.py").unlink()
    assert recipe_imports(tree)
    for layer in set(ALLOWED) - {"zoo"}:
        for path in files(tree, layer):
            path.unlink()
    assert len(upward_imports(tree)) == len(ALLOWED) - 1
    assert heavy_imports(tree)
