"""What is tried: all of it once, whatever is killed, and never what can't be."""

import json

import pytest

from zoo.errors import InputError
from zoo.search.results import collect

OVER = {"model.num_heads": "1,2,4", "model.depth": "1:4"}


def run(search, directory, **calls):
    """Searches in this process, whose trials :func:`instant` has replaced."""
    from zoo.search.tuner import RecipeTuner

    directory.mkdir(exist_ok=True)
    RecipeTuner(search, directory, **calls).search()
    return collect(search, directory)


def tried(results):
    return {trial.id: dict(trial.changes) for trial in results.trials}


def test_a_grid_is_every_combination(make_search, instant, tmp_path):
    results = run(make_search(OVER, tuner="grid"), tmp_path / "s")
    combinations = {(t.changes["model.num_heads"], t.changes["model.depth"]) for t in results.trials}
    assert len(results.trials) == 12
    assert combinations == {(heads, depth) for heads in (1, 2, 4) for depth in (1, 2, 3, 4)}
    assert results.best.changes == {"model.num_heads": 4, "model.depth": 3}
    assert [t.result.value for t in results.complete] == sorted(t.result.value for t in results.complete)


def test_a_grid_leaves_out_what_does_not_count(make_search, instant, tmp_path):
    over = {"model.position": "none,rotary", "model.attention": "multi_head,relative if model.position=none"}
    results = run(make_search(over, tuner="grid"), tmp_path / "s")
    assert sorted(json.dumps(trial.changes) for trial in results.trials) == sorted(
        json.dumps(changes)
        for changes in (
            {"model.position": "none", "model.attention": "multi_head"},
            {"model.position": "none", "model.attention": "relative"},
            {"model.position": "rotary"},
        )
    )


@pytest.mark.parametrize("tuner", ["grid", "random", "hyperband", "bayesian"])
def test_a_killed_search_ends_as_one_that_was_not(make_search, instant, tmp_path, tuner):
    settings = {"tuner": tuner, "trials": None if tuner == "hyperband" else 9}
    whole = run(make_search(OVER, **settings), tmp_path / "whole")
    for at in range(4):
        instant.die_at = at
        with pytest.raises(instant.Killed):
            run(make_search(OVER, **settings), tmp_path / "killed")
    results = run(make_search(OVER, **settings), tmp_path / "killed")
    assert tried(results) == tried(whole)
    assert len(whole.complete) == len(whole.trials) == len(results.complete)
    assert results.best.id == whole.best.id


@pytest.mark.parametrize("tuner", ["random", "bayesian"])
def test_nothing_is_tried_twice(make_search, instant, tmp_path, tuner):
    results = run(make_search(OVER, tuner=tuner, trials=12), tmp_path / "s")
    assert len({json.dumps(dict(trial.changes)) for trial in results.trials}) == 12
    assert len(run(make_search(OVER, tuner=tuner, trials=20), tmp_path / "s").trials) == 12  # the space has no more


def test_more_trials_may_be_asked_for(make_search, instant, tmp_path):
    first = run(make_search(OVER, trials=3), tmp_path / "s")
    more = run(make_search(OVER, trials=5), tmp_path / "s")
    assert len(more.trials) == 5
    assert tried(first).items() <= tried(more).items()


def test_hyperband_trains_the_best_for_longer(make_search, instant, tmp_path):
    search = make_search({"model.num_heads": "1,2,4", "model.depth": "1:9"}, {"train.steps": 90}, tuner="hyperband")
    results = run(search, tmp_path / "s")
    budgets = [trial.steps for trial in results.trials]
    assert sorted(set(budgets)) == [10, 30, 90]
    assert (budgets.count(10), budgets.count(30), budgets.count(90)) == (9, 3 + 5, 1 + 2 + 3)  # Li et al., table 1
    first = sorted((t for t in results.trials if t.steps == 10), key=lambda t: t.result.value)
    promoted = [t for t in results.trials if t.steps == 30 and t.changes["train.warmup_steps"] < 30]
    best = {(t.changes["model.num_heads"], t.changes["model.depth"]) for t in first[:3]}
    assert best <= {(t.changes["model.num_heads"], t.changes["model.depth"]) for t in promoted}
    assert all(recipe.train.validate_every <= recipe.train.steps for recipe in instant)


def test_hyperband_promotes_in_a_small_space(make_search, instant, tmp_path):
    """Three combinations do not fill a round of nine: one of them is trained on."""
    search = make_search({"model.num_heads": "1,2,4"}, {"train.steps": 90}, tuner="hyperband")
    results = run(search, tmp_path / "s")
    assert sorted(trial.steps for trial in results.trials) == [10, 10, 10, 30, 90]
    assert {trial.changes["model.num_heads"] for trial in results.trials if trial.steps > 10} == {4}


def test_hyperband_promotes_beside_failed_trials(make_search, instant, tmp_path):
    instant.failure = lambda recipe: "memory ran out" if recipe.model.depth > 5 and recipe.train.steps == 10 else ""
    search = make_search({"model.num_heads": "1,2,4", "model.depth": "1:9"}, {"train.steps": 90}, tuner="hyperband")
    results = run(search, tmp_path / "s")
    assert any(not trial.complete for trial in results.trials)
    assert [trial.steps for trial in results.trials].count(30) == 3 + 5
    assert [trial.steps for trial in results.trials].count(90) == 1 + 2 + 3


def test_hyperband_that_goes_on_with_fewer_trials_ends(make_search, instant, tmp_path):
    over, steps = {"train.learning_rate": "1e-4..1e-2:log"}, {"train.steps": 90}
    first = run(make_search(over, steps, tuner="hyperband", trials=30), tmp_path / "s")
    assert len(first.trials) == 30  # the second pass has begun
    assert len(run(make_search(over, steps, tuner="hyperband"), tmp_path / "s").trials) <= 46


def test_hyperband_needs_trials_for_a_bracket(make_search):
    with pytest.raises(InputError, match="needs 13 trials or more, not 12"):
        make_search(OVER, tuner="hyperband", trials=12)


def test_a_grid_has_no_endless_ranges(make_search):
    with pytest.raises(InputError, match="a grid needs values"):
        make_search({"train.learning_rate": "1e-4..1e-2:log"}, tuner="grid").space  # noqa: B018
    search = make_search({"train.learning_rate": "1e-4..1e-2:10:log"}, tuner="grid")
    assert search.space.dimensions[0].values == (1e-4, 1e-3, 1e-2)


def test_the_budget_of_a_trial_is_all_of_it_without_hyperband(make_search, instant, tmp_path):
    search = make_search(OVER, trials=2)
    run(search, tmp_path / "s")
    assert {recipe.train for recipe in instant} == {search.base.train}


@pytest.mark.parametrize("tuner", ["grid", "random", "hyperband", "bayesian"])
def test_what_can_not_be_built_is_skipped(make_search, instant, tmp_path, tuner):
    settings = {"grid": {}, "hyperband": {"halvings": 1}, "random": {"trials": 6}, "bayesian": {"trials": 8}}[tuner]
    search = make_search({"model.num_heads": "2,3,4,5", "model.depth": "1:4"}, tuner=tuner, **settings)  # 16 wide
    results = run(search, tmp_path / "s")
    assert len(results.complete) == len(results.trials) >= 6
    assert {recipe.model.num_heads for recipe in instant} <= {2, 4}
    assert all("16" in skipped["reason"] for skipped in results.skipped)
    if tuner == "grid":
        assert {skipped["changes"]["model.num_heads"] for skipped in results.skipped} == {3, 5}


def test_nothing_can_be_built(make_search, instant, tmp_path):
    results = run(make_search({"model.num_heads": "3,5"}, tuner="grid"), tmp_path / "s")
    with pytest.raises(InputError, match=r"no trial has a result: .*16"):
        results.best  # noqa: B018


def test_a_failed_trial_is_no_result_and_the_search_goes_on(make_search, instant, tmp_path):
    instant.failure = lambda recipe: "memory ran out" if recipe.model.depth > 2 else ""
    results = run(make_search(OVER, tuner="grid"), tmp_path / "s")
    assert len(results.trials) == 12
    assert len(results.complete) == 6
    assert results.best.changes["model.depth"] == 2
    instant.failure = lambda recipe: f"depth {recipe.model.depth} is bad"
    with pytest.raises(InputError, match="depth 1 is bad; depth 2 is bad"):
        run(make_search(OVER, tuner="grid"), tmp_path / "all").best  # noqa: B018


def test_options_of_one_kind_alone_do_not_mislead_the_bayesian_tuner(make_search, instant, tmp_path):
    over = {"model.attention": "multi_head,relative", "model.attention_options.max_distance": "2:60", **OVER}
    results = run(make_search(over, tuner="bayesian", trials=15), tmp_path / "s")
    for trial in results.trials:
        has = "model.attention_options.max_distance" in trial.changes
        assert has == (trial.changes["model.attention"] == "relative")


def test_state_that_is_damaged(make_search, instant, tmp_path):
    run(make_search(OVER, trials=2), tmp_path / "s")
    (tmp_path / "s" / "oracle.json").write_text('{"trials": ')
    with pytest.raises(InputError, match="damaged"):
        run(make_search(OVER, trials=2), tmp_path / "s")


def test_a_trial_of_a_worker_that_is_gone_goes_to_another(make_search):
    """And a worker that has nothing to do waits while a trial may still come back."""
    from zoo.search.oracles import make_oracle

    search = make_search(OVER, tuner="grid", trials=2)
    oracle = make_oracle(search)
    oracle.save = lambda: None
    first, second = oracle.create_trial("a"), oracle.create_trial("b")
    assert oracle.create_trial("a").trial_id == first.trial_id  # asked again after a restart
    second.status = "COMPLETED"
    oracle.update_trial(second.trial_id, {"token_nll": 1.0})
    oracle.end_trial(second)
    assert oracle.create_trial("b").status == "IDLE"
    assert oracle.workers() == {"a", "b"}
    oracle.take_back("a")
    again = oracle.create_trial("b")
    assert again.trial_id == first.trial_id
    for _ in range(2):  # the one that was given up may come back
        again.status = "COMPLETED"
        oracle.update_trial(again.trial_id, {"token_nll": 0.5})
        oracle.end_trial(again)
    assert oracle.create_trial("b").status == "STOPPED"
    assert oracle.end_order == [second.trial_id, first.trial_id]
    assert oracle.workers() == set()


def test_a_worker_that_comes_back_before_another_has_begun(make_search):
    """Its trial has ended, and is not given to anybody again."""
    from zoo.search.oracles import make_oracle

    oracle = make_oracle(make_search(OVER, tuner="grid", trials=1))
    oracle.save = lambda: None
    trial = oracle.create_trial("a")
    oracle.take_back("a")
    trial.status = "COMPLETED"
    oracle.update_trial(trial.trial_id, {"token_nll": 1.0})
    oracle.end_trial(trial)
    assert oracle.create_trial("b").status == oracle.create_trial("a").status == "STOPPED"


def test_what_is_told_may_be_printed(make_search, instant, tmp_path, capsys):
    from zoo.search import search

    search(make_search(OVER, tuner="grid", trials=1), tmp_path / "s", tell=print)
    assert "trial 0 begins" in capsys.readouterr().out
