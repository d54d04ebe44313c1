"""What the original does before each request, as one pure step (paging, sections 7 and 12).

What it keeps between requests, the tracker of usage and the remembered cut, is a value: state in,
state out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from attrs import evolve, field, frozen

from ctxalgebra.codecs.pi_weights import resident_tokens
from ctxalgebra.compat.paging_keys import CutState, Host, RawItem, prepare_cut
from ctxalgebra.compat.paging_limits import ABSENT
from ctxalgebra.compat.paging_notices import Wording
from ctxalgebra.compat.paging_select import Selection, select_context
from ctxalgebra.compat.paging_tokens import (
    Prepared,
    Tracker,
    outgoing_only,
    prepare,
    record_selection,
)

__all__ = ["PagingState", "Step", "next_request"]


@frozen
class PagingState:
    """Hold what lives between requests.

    Args:
        tracker: what was learned from usage.
        cut: the remembered cut, if there is one.
    """

    tracker: Tracker = field(factory=Tracker)
    cut: CutState | None = None


class Step(NamedTuple):
    """Hold what a step gives: the next state, the selection, and what usage said about it."""

    state: PagingState
    selection: Selection
    prepared: Prepared
    resident: int


def resumed(state: PagingState, raw_history: Sequence[RawItem] | None) -> PagingState:
    """Forget a cut that raw history doesn't hold any more; so it is before each request."""
    return evolve(state, cut=prepare_cut(state.cut, raw_history))


def next_request(
    state: PagingState,
    messages: Sequence[Host],
    *,
    persistent: Sequence[Host] | None,
    raw_history: Sequence[RawItem] | None,
    token_budget: Any,
    trim_to_tokens: Any = ABSENT,
    model_context_window: Any = ABSENT,
    system_prompt: str = "",
    active_tools: Sequence[Host] = (),
    status_tokens: Any = None,
    wording: Wording | None = None,
) -> Step:
    """Select the next request and remember what the one after it needs.

    Args:
        state: what the last step gave; a response goes in by `record_response`.
        messages: the whole request; `persistent` are the messages that the session stores, None
            when they can't be had: then none is told apart, and the next usage teaches nothing
            about stored messages.
        status_tokens: the host's own figure of the context, if it has one.
        raw_history, token_budget, trim_to_tokens, model_context_window, system_prompt,
            active_tools, wording: as `select_context`.

    Raises: as `select_context`; the caller keeps its state, and `resumed` says what of it counts.

    >>> message = {"role": "user", "content": "hi"}
    >>> next_request(
    ...     PagingState(), [message], persistent=[message], raw_history=None, token_budget=9
    ... ).selection.mode
    'within-budget'
    """
    state = resumed(state, raw_history)
    resident = resident_tokens(system_prompt, active_tools)
    stored = () if persistent is None else persistent
    prepared = prepare(state.tracker, messages, resident, status_tokens, stored)
    selection = select_context(
        messages,
        token_budget=token_budget,
        trim_to_tokens=trim_to_tokens,
        model_context_window=model_context_window,
        system_prompt=system_prompt,
        active_tools=active_tools,
        context_tokens=prepared.context,
        estimates=prepared.estimates,
        outgoing_only=() if persistent is None else outgoing_only(messages, persistent),
        raw_history=raw_history,
        cut=state.cut,
        wording=wording,
    )
    tracker = record_selection(state.tracker, selection.messages, resident, stored)
    return Step(PagingState(tracker, selection.cut), selection, prepared, resident)
