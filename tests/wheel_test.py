"""The wheel holds what it should, and trains a recipe by name far from this tree."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command, cwd: Path) -> str:
    """Runs a command without the variables that would lead Python back to this tree."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(target: str, source: Path, directory: Path) -> Path:
    run(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", directory, cwd=source)
    (built,) = directory.iterdir()
    return built


def names(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """A new environment with the wheel, which borrows the other packages of this one."""
    home = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(home, symlinks=True)
    run(sys.executable, "-m", "pip", "--python", home, "install", "--no-deps", "--no-index", wheel, cwd=home)
    (site_packages,) = home.glob("lib/python*/site-packages")
    # Directories named in a .pth come last on the path, and .pth files inside of them are not read: an editable
    # install of this tree does not count.
    (site_packages / "borrowed.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")))
    return home


def test_top_level(wheel):
    tops = {name.split("/")[0] for name in names(wheel)}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"zoo"}
    assert len(tops) == 2


def test_recipes_are_inside(wheel):
    recipes = {path.name for path in (ROOT / "recipes").glob("*.py")}
    assert recipes
    assert {name for name in names(wheel) if name.startswith("zoo/recipes/")} == {f"zoo/recipes/{r}" for r in recipes}


def test_modules_are_inside(wheel):
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "zoo").rglob("*.py")}
    assert modules
    assert modules <= names(wheel)
    assert not [name for name in names(wheel) if name.endswith("_test.py")]


def test_wheel_from_sdist_is_the_same(wheel, tmp_path):
    sdist = build("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source", filter="tar")  # under Bazel the files are links out of the tree
    (source,) = (tmp_path / "source").iterdir()
    assert (source / "tests" / Path(__file__).name).is_file()
    assert names(build("wheel", source, tmp_path / "wheel")) == names(wheel)


def test_train_by_name_from_elsewhere(installed, tmp_path):
    where = run(installed / "bin/python", "-c", "import zoo; print(zoo.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed)
    workdir = tmp_path / "run"
    quick = ("--steps=2", "--set=train.jit=false", "--set=train.samples=0", "--set=task.options.train_size=64")
    run(installed / "bin/zoo", "train", "--recipe=copy", *quick, f"--workdir={workdir}", cwd=tmp_path)
    assert any(workdir.iterdir())
