"""The lifecycle of the original's paging, row by row."""

from __future__ import annotations

from typing import get_args

import pytest

from ctxalgebra.compat.paging_keys import CutKey, CutState, Frontier, RawItem
from ctxalgebra.compat.paging_lifecycle import LIFECYCLE, Event, Lifetime, after, is_retry_edit
from ctxalgebra.compat.paging_session import PagingState, next_request
from ctxalgebra.compat.paging_stats import LatestInput
from ctxalgebra.compat.paging_tokens import Tracker, record_selection
from ctxalgebra.errors import InvalidArgument

CUT = CutState(Frontier("prefix", CutKey("h")), {"role": "user", "content": "N", "timestamp": 0})
TRACKER = record_selection(Tracker(), [{"role": "user", "content": "x"}], 1, [])
FULL = Lifetime(PagingState(TRACKER, CUT), LatestInput(9, estimated=True), frozenset("k"), True)
USAGE = {"input": 5, "output": 1, "cacheRead": 0, "cacheWrite": 0}
RESPONSE = {"role": "assistant", "content": [], "usage": USAGE}

ROWS = {
    # event: cut, accounting, transient, known, override
    "session-start": (None, Tracker(), None, "", None),
    "session-tree": (None, Tracker(), None, "", True),
    "model-select": (None, Tracker(), None, "k", True),
    "session-compact": (None, Tracker(), None, "kn", True),
    "new-entry": (None, Tracker(), None, "kn", True),
    "retry-edit": (CUT, Tracker(), 9, "kn", True),
    "automatic-compact": (CUT, TRACKER, 9, "k", True),
    "manual-compact": (CUT, Tracker(), 9, "k", True),
    "turn-end": (CUT, "learned", 5, "k", True),
    "refresh-failure": (CUT, Tracker(), 9, "k", True),
    "switch": (None, Tracker(), None, "k", False),
    "switch-repeated": (CUT, TRACKER, 9, "k", False),
    "query": (CUT, TRACKER, 9, "k", True),
    "cancelled": (CUT, TRACKER, 9, "k", True),
    "session-shutdown": (CUT, TRACKER, 9, "k", True),
    "process-restart": (None, Tracker(), None, "", None),
}


def test_the_table_has_a_row_for_each_event():
    assert list(LIFECYCLE) == list(get_args(Event)) == list(ROWS)


@pytest.mark.parametrize("event", ROWS)
def test_each_event_resets_what_its_row_says(event):
    cut, tracker, transient, known, override = ROWS[event]
    now = after(FULL, event, id="n", response=RESPONSE, enabled=False)
    assert now.paging.cut == cut
    if tracker == "learned":
        assert now.paging.tracker.anchor is not None
        assert now.paging.tracker.pending is None
    else:
        assert now.paging.tracker == tracker
    assert (now.transient and now.transient.tokens) == transient
    assert now.known == frozenset(known)
    assert now.override is override


@pytest.mark.parametrize("event", ["session-compact", "new-entry", "retry-edit"])
def test_what_was_seen_does_nothing_a_second_time(event):
    assert after(FULL, event, id="k") is FULL
    once = after(FULL, event, id="n")
    assert after(once, event, id="n") is once
    assert after(FULL, event).known == {"k"}


def test_what_happens_besides():
    acts = {event: row.actions for event, row in LIFECYCLE.items() if row.actions}
    assert acts["automatic-compact"] == ("cancel-compaction",)
    assert acts["session-start"] == ("reload-settings", "publish-status", "refresh")
    assert {e for e, actions in acts.items() if "refresh" in actions} == {
        "session-start", "session-tree", "turn-end",
    }  # fmt: skip
    assert {e for e, actions in acts.items() if "notify" in actions} == {"refresh-failure", "query"}


@pytest.mark.parametrize("event", ["cancelled", "query", "session-shutdown", "automatic-compact"])
def test_what_changes_nothing_gives_the_same_object(event):
    assert after(FULL, event) is FULL


def test_an_estimate_stays_where_the_response_reports_nothing():
    silent = {"role": "assistant", "content": []}
    assert after(FULL, "turn-end", response=silent).transient == FULL.transient
    measured = after(FULL, "turn-end", response=RESPONSE)
    assert measured.transient == LatestInput(5, estimated=False)
    assert after(measured, "turn-end", response=silent).transient is None
    assert after(Lifetime(), "turn-end", response=silent).transient is None


@pytest.mark.parametrize("event", ["nope", "switch", "switch-repeated", "turn-end"])
def test_events_need_what_they_tell(event):
    with pytest.raises(InvalidArgument, match="invalid-argument"):
        after(FULL, event)


def test_the_edit_of_a_retry_keeps_the_cut_and_the_next_request_extends_the_last():
    edit = {"type": "context_edit", "targetId": "a", "replacement": None}
    failed = {"type": "message", "message": {"role": "assistant", "stopReason": "error"}}
    assert is_retry_edit(edit, failed)
    for other in (
        (edit, {"type": "message", "message": {"role": "assistant", "stopReason": "stop"}}),
        (edit, {"type": "message", "message": {"role": "user", "stopReason": "error"}}),
        (edit, {"type": "label"}),
        ({**edit, "replacement": {"content": []}}, failed),
        ({**edit, "type": "label"}, failed),
    ):
        assert not is_retry_edit(*other)
    messages = [
        {"role": "user", "content": "x" * 800, "timestamp": 1},
        {"role": "user", "content": "y" * 40, "timestamp": 2},
    ]
    more = {
        "persistent": messages,
        "raw_history": [RawItem(str(m["timestamp"]), m) for m in messages],
        "token_budget": 150,
    }
    step = next_request(PagingState(), messages, **more)
    assert step.selection.mode == "paged"
    held = Lifetime(step.state)
    again = next_request(after(held, "retry-edit", id="e").paging, messages, **more)
    assert again.selection.messages == step.selection.messages
    assert again.selection.cut is step.selection.cut
    lost = next_request(after(held, "new-entry", id="e").paging, messages, **more)
    assert lost.selection.cut is not step.selection.cut
