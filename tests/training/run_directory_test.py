"""The run directory: one run's, one process's, and nobody else's files."""

from pathlib import Path

import pytest

from zoo.errors import InputError
from zoo.training.run_directory import RunDirectory


def begin(run: RunDirectory, recipe) -> None:
    """A run that has come as far as its first checkpoint."""
    with run.claim(recipe):
        run.last.write_bytes(b"")


def test_claimed_again_by_the_same_recipe(tiny, tmp_path):
    run = RunDirectory(tmp_path / "a" / "b")
    begin(run, tiny())
    with run.claim(tiny()):
        assert run.recipe() == tiny()


def test_another_recipe_is_refused(tiny, tmp_path):
    run = RunDirectory(tmp_path)
    begin(run, tiny())
    with pytest.raises(InputError, match=r"train\.steps is 4 there and 9 here; choose another --workdir"):
        run.claim(tiny({"train.steps": 9}))
    begin(run, tiny())  # what was refused has let go of it


def test_in_use(tiny, tmp_path):
    run = RunDirectory(tmp_path)
    with run.claim(tiny()), pytest.raises(InputError, match="in use by another process"):
        RunDirectory(tmp_path).claim(tiny())


def test_files_of_others_are_left_alone(tiny, tmp_path):
    (tmp_path / "thesis.tex").write_text("...")
    with pytest.raises(InputError, match=r"is no run directory \(thesis\.tex\)"):
        RunDirectory(tmp_path).claim(tiny())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_recipe_json_of_others_makes_no_run_directory(tiny, tmp_path):
    for name, text in (("recipe.json", '{"cake": 1}'), ("log.csv", "a,b"), ("mine.partial.json", "x"), ("lock", "key")):
        (tmp_path / name).write_text(text)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match=r"is no run directory: .*damaged"):
        RunDirectory(tmp_path).claim(tiny())
    (tmp_path / "recipe.json").unlink()
    (tmp_path / "log.csv").unlink()
    for name in ("mine.partial.json", "lock"):
        with pytest.raises(InputError, match="has files and is no run directory"):
            RunDirectory(tmp_path).claim(tiny())
        (tmp_path / name).unlink()
        before.pop(name)
    assert before.keys() == {"recipe.json", "log.csv"}


def test_a_model_without_its_last_checkpoint_is_kept(tiny, tmp_path):
    """Only what a run wrote before its first checkpoint is begun anew: a log comes after it."""
    run = RunDirectory(tmp_path)
    begin(run, tiny())
    run.best.write_bytes(b"weights")
    run.write_log([{"step": 1}])
    run.last.unlink()
    for recipe in (tiny(), tiny({"train.steps": 9})):
        with pytest.raises(InputError, match=r"holds a trained model and no last\.npz"):
            run.claim(recipe)
    assert run.best.read_bytes() == b"weights"
    assert run.recipe() == tiny()


def test_a_file_is_no_directory(tiny, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file, and a run needs a directory"):
        RunDirectory(tmp_path / "file").claim(tiny())


def test_no_run(tmp_path):
    with pytest.raises(InputError, match=r"has no recipe\.json; train first"):
        RunDirectory(tmp_path).recipe()
    assert RunDirectory(tmp_path).read_log() == []


def test_plugin_files_are_kept(tiny, tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text("A = 1\n")
    recipe = tiny({"plugins": (str(plugin), "some.module")})
    run = RunDirectory(tmp_path / "run")
    begin(run, recipe)
    copy, module = run.plugin_specs()
    assert module == "some.module"
    assert Path(copy).read_text() == "A = 1\n"
    plugin.write_text("A = 2\n")
    with pytest.raises(InputError, match=r"mine\.py' has changed since this run began"):
        run.claim(recipe)
    plugin.unlink()
    with run.claim(recipe):  # the copy does
        assert Path(copy).read_text() == "A = 1\n"


def test_what_failed_before_its_first_checkpoint_is_gone(tiny, tmp_path):
    """So the same folder serves for another try, with another recipe."""
    run = RunDirectory(tmp_path / "run")
    with pytest.raises(ZeroDivisionError), run.claim(tiny()):
        (run.path / "target.subwords").write_bytes(b"")
        raise ZeroDivisionError
    assert not run.path.exists()
    begin(run, tiny({"train.steps": 9}))


def test_killed_before_its_first_checkpoint(tiny, tmp_path, monkeypatch):
    """Whatever was written by then, plugins only half, the next claim starts anew."""
    plugin = tmp_path / "mine.py"
    plugin.write_text("A = 1\n")
    recipe = tiny({"plugins": (str(plugin),)})
    run = RunDirectory(tmp_path / "run")

    def killed(source, copy):
        copy.write_text("A =")
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("shutil.copyfile", killed)
        patch.setattr(RunDirectory, "_leave", lambda *args: None)  # one that is killed tidies nothing up
        with pytest.raises(ZeroDivisionError):
            run.claim(recipe)
    assert any(run.plugins.iterdir())
    with monkeypatch.context() as patch:  # and killed again while that is cleared away
        patch.setattr("shutil.rmtree", lambda *args, **settings: killed(None, run.path / "half.partial.csv"))
        with pytest.raises(ZeroDivisionError):
            run.claim(recipe)
    with run.claim(recipe):
        assert [Path(spec).read_text() for spec in run.plugin_specs()] == ["A = 1\n"]


def test_log(tmp_path):
    run = RunDirectory(tmp_path)
    run.write_log([{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.25}])
    assert run.read_log() == [{"step": "1", "loss": "0.5"}, {"step": "2", "loss": "0.25"}]


def test_facts_add_up(tmp_path):
    run = RunDirectory(tmp_path)
    run.write_environment({"a": 1, "b": 1})
    run.write_environment({"b": 2})
    assert '"a": 1' in run.environment_file.read_text() and '"b": 2' in run.environment_file.read_text()
