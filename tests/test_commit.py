"""A plan that meets a store: applied, not applied, or nobody can say."""

from __future__ import annotations

import itertools

import pytest

from ctxalgebra import Session, StoreError, assistant, label, labels, record, travel, user
from ctxalgebra.checkpoints.commit import commit
from ctxalgebra.model.session import at_leaf, log
from ctxalgebra.store import open_store

BEFORE = record(Session(), user("Find it"), assistant("It is in parse()."), user("Mend it"))


def planned():
    """Name where one is, go back, and say what was learnt: four writes."""
    there = travel(label(BEFORE, 2, "mend-raw"), 1)
    return record(there, user("Goal: mend it"))


AFTER = planned()


class Memory:
    """A journal in memory that does with each write what its script says, then what is asked."""

    def __init__(self, session, *script, reads=99):
        self.session = session
        self.script = list(script)
        self.reads = reads

    def append(self, session):
        what = self.script.pop(0) if self.script else "write"
        if what == "throw before":
            raise OSError(what)
        if what == "no-op":
            return None
        if what == "part":
            session = _first(session, len(self.session) + 1)
        if what == "foreign before":
            self.session = record(self.session, user("Somebody else"))
            raise StoreError("changed-file")
        if what == "other":
            session = record(self.session, user("Something else"))
        self.session = session
        if what == "foreign behind":
            self.session = record(session, user("Somebody else"))
        if what == "throw after":
            raise StoreError("unwritable")
        return object()

    def read(self):
        self.reads -= 1
        if self.reads < 0:
            raise OSError("gone")
        return self.session


def _first(session, count):
    made = Session()
    for node in itertools.islice(log(session), count):
        made = record(made, node.entry)
    return made


EXPECTED = {
    "write": "applied",
    "throw after": "applied",
    "foreign behind": "applied",
    "throw before": "not-applied",
    "no-op": "not-applied",
    "foreign before": "indeterminate",
    "other": "indeterminate",
    "part": "indeterminate",
}


@pytest.mark.parametrize("script", EXPECTED)
def test_what_became_of_it_is_what_the_journal_says(script):
    store = Memory(BEFORE, script)
    done = commit(store, BEFORE, AFTER)
    assert done.outcome == EXPECTED[script]
    assert done.session == store.session
    there = labels(store.session) == {2: "mend-raw"}
    assert done.ticket == ("present" if there else "absent")
    assert there == (done.outcome == "applied")
    assert bool(done.error) == (script in {"throw before", "throw after", "foreign before"})


def test_codes_of_stores_are_told():
    assert commit(Memory(BEFORE, "throw after"), BEFORE, AFTER).error == "unwritable"
    assert commit(Memory(BEFORE, "throw before"), BEFORE, AFTER).error == "OSError"


@pytest.mark.parametrize("script", EXPECTED)
def test_what_cannot_be_read_is_indeterminate(script):
    done = commit(Memory(BEFORE, script, reads=0), BEFORE, AFTER)
    assert (done.outcome, done.session, done.ticket) == ("indeterminate", None, "unknown")


@pytest.mark.parametrize(
    ("again", "left"), [("throw before", True), ("throw after", False), ("write", False)]
)
def test_a_ticket_without_its_travel_is_taken_away(again, left):
    store = Memory(BEFORE, "part", again)
    done = commit(store, BEFORE, AFTER)
    assert done.outcome == "indeterminate"
    assert ("mend-raw" in labels(store.session).values()) == left
    assert done.ticket == ("present" if left else "absent")


def test_what_stood_at_the_ticket_comes_back():
    before = label(BEFORE, 2, "mine")
    after = record(travel(label(before, 2, "mend-raw"), 1), user("on"))
    store = Memory(before, "part")
    done = commit(store, before, after)
    assert labels(store.session) == {2: "mine"}
    assert done.ticket == "absent"


def test_a_label_that_stood_there_before_stays():
    before = label(BEFORE, 2, "mend-raw")
    after = record(label(before, 2, "mend-raw"), user("on"))
    store = Memory(before, "part")
    done = commit(store, before, after)
    assert (done.outcome, done.ticket) == ("indeterminate", "present")
    assert len(store.session) == len(before) + 1


def test_a_leaf_that_did_not_move_is_a_doubt():
    after = travel(label(BEFORE, 2, "mend-raw"), 1)
    store = Memory(BEFORE, "part")
    assert commit(store, BEFORE, after).outcome == "indeterminate"
    assert labels(store.session) == {}
    assert commit(Memory(BEFORE), BEFORE, after).outcome == "applied"


def test_nothing_to_write_is_nothing():
    done = commit(Memory(BEFORE), BEFORE, BEFORE)
    assert (done.outcome, done.ticket, done.error) == ("not-applied", "absent", "")


def test_a_file(tmp_path):
    path = tmp_path / "session.jsonl"
    with open_store(path) as store:
        store.append(BEFORE)
        done = commit(store, BEFORE, AFTER)
        assert (done.outcome, done.session, done.ticket) == ("applied", AFTER, "present")
        # Somebody else takes the last line away, and writes half of another one.
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:-1]) + b'{"kind":')
        grown = record(AFTER, user("more"))
        done = commit(store, AFTER, grown)
        assert (done.outcome, done.error) == ("indeterminate", "changed-file")
        assert len(done.session) < len(AFTER)
        # Behind a torn line the store can't go on.
        more = record(done.session, user("more"))
        assert commit(store, done.session, more).error == "changed-file"
        path.unlink()
        done = commit(store, AFTER, grown)
        assert (done.outcome, done.session) == ("indeterminate", None)
    with pytest.raises(StoreError, match="store-closed"):
        store.read()


def test_one_goes_on_with_what_a_file_holds(tmp_path):
    path = tmp_path / "session.jsonl"
    with open_store(path) as store:
        first = commit(store, store.session, BEFORE)
        assert first.session is BEFORE is store.session
        done = commit(store, first.session, AFTER)
        assert done.session is AFTER
        # Somebody else writes a line of its own.
        line = path.read_bytes().splitlines(keepends=True)[1]
        with path.open("ab") as file:
            file.write(line)
        lost = commit(store, done.session, record(done.session, user("mine")))
        assert (lost.outcome, lost.error) == ("indeterminate", "changed-file")
        assert len(lost.session) == len(AFTER) + 1
        again = commit(store, lost.session, record(lost.session, user("mine")))
        assert again.outcome == "applied"
    with open_store(path) as store:
        assert store.session == again.session


def test_a_file_gives_its_ticket_back(tmp_path):
    class Partly:
        """Writes the ticket, then fails."""

        def __init__(self, store):
            self.store, self.writes = store, 0

        def append(self, session):
            self.writes += 1
            if self.writes == 1:
                self.store.append(label(self.store.session, 2, "mend-raw"))
                raise OSError
            return self.store.append(session)

        def read(self):
            return self.store.read()

    with open_store(tmp_path / "session.jsonl") as store:
        store.append(BEFORE)
        done = commit(Partly(store), BEFORE, AFTER)
        assert (done.outcome, done.ticket, labels(done.session)) == ("indeterminate", "absent", {})
        assert commit(store, done.session, record(done.session, user("on"))).outcome == "applied"


@pytest.mark.parametrize("script", ["leaf", "foreign in front"])
def test_a_ticket_stays_where_its_journey_is_written(script):
    """The handoff in the journal names it."""

    class Moved(Memory):
        def append(self, session):
            if script == "leaf":
                self.session = at_leaf(session, 0)
                return
            self.session = record(self.session, user("Somebody else"))
            for node in itertools.islice(log(session), len(BEFORE), None):
                self.session = record(self.session, node.entry)

    store = Moved(BEFORE)
    done = commit(store, BEFORE, AFTER)
    assert (done.outcome, done.ticket) == ("indeterminate", "present")
    assert labels(store.session) == {2: "mend-raw"}


@pytest.mark.parametrize("lie", [5, None, "x", [], object()])
def test_what_is_no_session_was_not_read(lie):
    class Lying(Memory):
        def read(self):
            return lie

    done = commit(Lying(BEFORE), BEFORE, AFTER)
    assert (done.outcome, done.session, done.ticket) == ("indeterminate", None, "unknown")


def test_a_label_that_is_cleared_counts_as_written():
    before = label(BEFORE, 2, "mine")
    done = commit(Memory(before), before, label(before, 2, ""))
    assert (done.outcome, done.ticket) == ("applied", "present")


def test_a_session_of_another_handle_can_be_gone_on_with(tmp_path):
    """It is equal to what the store holds, and not the very one; what comes back is the store's."""
    path = tmp_path / "session.jsonl"
    with open_store(path) as store:
        store.append(BEFORE)
    with open_store(path) as store:
        done = commit(store, BEFORE, record(BEFORE, user("on")))
        assert (done.outcome, done.error) == ("not-applied", "not-grown")
        assert done.session is store.session
        again = commit(store, done.session, record(done.session, user("on")))
        assert again.outcome == "applied"
