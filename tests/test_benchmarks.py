"""What a turn costs, in counts: entries stepped over, folds stepped, messages measured."""

from __future__ import annotations

import importlib.util
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from ctxalgebra import (
    Fold,
    Session,
    account,
    calibrate,
    chars4,
    dry_run,
    fold,
    log,
    path,
    pipeline,
    project,
    prune_suffix,
    record,
    reply,
    select,
    send,
    travel,
    user,
)
from ctxalgebra.model import view as view_module
from ctxalgebra.model.session import STRETCH, at_leaf

ROOT = Path(__file__).resolve().parents[1]


def load_headline():
    spec = importlib.util.spec_from_file_location("headline", ROOT / "benchmarks" / "headline.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


headline = load_headline()
TURNS = [(headline.message(a), headline.message(b)) for a, b in headline.script(2_000)]


@pytest.fixture
def count(monkeypatch):
    """Count every step of the view; `measure` and `entries` count what they are called for."""
    seen = Counter()

    def counted(step):
        def stepping(*arguments):
            seen["view"] += 1
            return step(*arguments)

        return stepping

    for kind, step in view_module.STEPS.items():
        monkeypatch.setitem(view_module.STEPS, kind, counted(step))
    return seen


def grow(count, sizes, *, dry=False):
    """Run 4,000 messages under a bounded window; give the counts of 80 turns before each size."""

    def measure(value):
        count["measure"] += 1
        return chars4(value)

    def step(value, _node, _view):
        count["fold"] += 1
        return value + 1

    entries = Fold("entries", 0, step)
    settle = pipeline(
        partial(prune_suffix, stub_over=2_500, drop_over=700, measure=measure),
        partial(select, budget=4_000, target=2_500, measure=measure),
    )
    session = Session()
    fold(session, entries)
    found = {}
    for turn, (arrived, answer) in enumerate(TURNS[: max(sizes) // 2], 1):
        if turn in {size // 2 - 80 for size in sizes}:
            count.clear()
        session = record(session, arrived)
        if dry:
            dry_run(settle, session, measure=measure)
        session, _ = send(settle(session))
        session = reply(session, "completed", answer)
        if 2 * turn in sizes:
            found[2 * turn] = dict(count)
    assert fold(session, entries) == len(session)
    return session, found


@pytest.mark.parametrize("dry", [False, True], ids=["settle", "dry run and settle"])
def test_a_turn_visits_no_more_entries_in_a_longer_session(count, dry):
    _, found = grow(count, (200, 2_000, 4_000), dry=dry)
    for what in ("view", "fold", "measure"):
        short, middle, long = (found[size][what] for size in (200, 2_000, 4_000))
        assert max(middle, long) <= 1.5 * short, what
    # Three entries a turn and the decisions; a dry run steps over its own and one request.
    assert found[4_000]["view"] <= 80 * (6 if dry else 4)


def test_a_dry_run_that_is_thrown_away_changes_nothing():
    made = headline.turns(headline.script(400))
    assert headline.ours_with_dry_run(made) == headline.ours(made)


def test_project_reads_the_view_and_no_entry(count):
    session, _ = grow(count, (600,))
    count.clear()
    bare = Session(None, None, session.view, {})
    assert project(bare) == project(session)
    assert not count


def test_the_memory_of_folds_is_bounded(count):
    session, _ = grow(count, (2_000,))
    calibrate(session)
    account(session)
    asked = len(session.folds) + 1
    kept = [node for node in log(session) if node.kept is not None]
    assert len(kept) == -(-len(session) // STRETCH)
    assert max(len(node.kept) for node in kept) <= asked
    settled = len(session.folds)
    for arrived, answer in TURNS[1_000:1_200]:
        session, _ = send(record(session, arrived))
        session = reply(session, "completed", answer)
    assert len(session.folds) == settled


def test_travelling_refolds_one_stretch_at_most(count):
    session, _ = grow(count, (2_000,))
    (entries,) = [f for f in session.folds if f.name == "entries"]
    for target in (0, 1, 63, 64, 65, 1_000, 1_279, 1_281, len(session) - 1):
        count.clear()
        there = at_leaf(session, target)
        assert fold(there, entries) == target + 1
        assert count["view"] <= 2 * STRETCH, target
        assert count["fold"] <= STRETCH, target
        count.clear()
        # The journey itself, and what it may record at its end.
        travel(session, target)
        assert count["view"] <= STRETCH + 4, target


def test_a_path_is_refolded_in_stretches_on_every_branch(count):
    session, _ = grow(count, (600,))
    (entries,) = [f for f in session.folds if f.name == "entries"]
    for target in range(100, 400, 50):
        session = travel(session, target)
        for arrived, answer in TURNS[300:330]:
            if arrived.role == "user" and not answer.calls:
                session, _ = send(record(session, arrived))
                session = reply(session, "completed", answer)
    for node in path(session)[::17]:
        count.clear()
        there = at_leaf(session, node.number)
        assert fold(there, entries) == node.depth + 1
        assert count["view"] <= 3 * STRETCH


def test_branches_that_grow_in_turn_are_each_remembered(count):
    # Every 64th entry of the journal lands on the side branch.
    session = record(Session(), user("root"))
    ends = {True: 0, False: 0}
    for number in range(1, 2_000):
        side = number % STRETCH == 0
        session = record(at_leaf(session, ends[side]), user(str(number)))
        ends[side] = number
    for here, there in ((True, False), (False, True)):
        session = at_leaf(session, ends[here])
        count.clear()
        assert at_leaf(session, ends[there]).leaf.number == ends[there]
        assert count["view"] <= STRETCH


def test_importing_loads_neither_hypothesis_nor_asyncio():
    assert headline.import_load() == (0, "neither hypothesis nor asyncio")


def test_the_headline_script_draws_the_same_session_each_time():
    assert headline.script(50) == headline.script(50)
    session = headline.ours(headline.turns(headline.script(50)))
    assert len(path(session)) == len(session) >= 150
