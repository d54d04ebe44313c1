"""The original's selector, rule by rule (paging, section 5): a compatibility profile.

One request at a time: it gets all messages, the raw history and what it remembers of the last cut,
and gives what to send and what to remember. `ctxalgebra.select` does the same work on a journal;
`docs/differences.md` names the faults that stay here.

Two runs are possible. The stateful run starts at the remembered cut and evicts down to the target;
its frontier has to be found again. Where that is not certain, the fallback run starts from nothing,
evicts down to the budget only, and remembers nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from attrs import frozen

from ctxalgebra.codecs.pi_weights import host_tokens, resident_tokens
from ctxalgebra.compat.paging_groups import (
    Groups,
    Slot,
    Slots,
    Unit,
    apply_cut,
    group,
    normalise,
    total,
)
from ctxalgebra.compat.paging_keys import (
    CutState,
    Frontier,
    Host,
    RawHistory,
    RawItem,
    call_ids,
)
from ctxalgebra.compat.paging_limits import (
    ABSENT,
    ContextLimits,
    SelectionError,
    context_token_limits,
    is_amount,
)
from ctxalgebra.compat.paging_notices import (
    References,
    Wording,
    default_wording,
    user_message,
)
from ctxalgebra.compat.paging_tokens import Estimates
from ctxalgebra.recall.report import thousands

__all__ = ["FALLBACKS", "Mode", "Placed", "Selection", "select_context"]

Mode = Literal["within-budget", "paged", "protected-overflow", "recovery"]

FALLBACKS: Mapping[str, str] = {
    "raw-history-unavailable": "there is no raw history to find a frontier in",
    "cut-key-unresolved": "the remembered message, or one that left, is not found exactly once",
    "keyless-no-key": "nothing that left has a key",
    "keyless-snap-over-budget": "the last cut that has a key leaves more than the budget",
    "frontier-not-in-groups": "the remembered message stands in history, but not in the request",
}
"""Why a selection remembers nothing (paging, section 8)."""


class Placed(NamedTuple):
    """Place a message in the output: what it is, its place in the input (-1 if generated)."""

    kind: str
    at: int
    message: Host


@frozen
class Selection:
    """Hold what is sent, and what is remembered.

    Args:
        placed: the messages in order; `kind` is `message`, `notice`, `overflow-notice`,
            `recovery-notice` or `reference`.
        estimate, budget: tokens.
        cut: what to remember; None for nothing.
        fallback: one of `FALLBACKS`, or empty.
    """

    placed: tuple[Placed, ...]
    estimate: float
    budget: float
    mode: Mode
    cut: CutState | None = None
    fallback: str = ""

    @property
    def messages(self) -> tuple[Host, ...]:
        """Give what is sent."""
        return tuple(placed.message for placed in self.placed)


class _Basis(NamedTuple):
    """Hold what both runs start from: fixed weights, limits, history and wording."""

    resident: float
    calibration: float
    limits: ContextLimits
    history: RawHistory | None
    wording: Wording

    def over(self, tokens: float, limit: float | None) -> bool:
        """Say whether an estimate is over a limit, calibrated; None is no limit."""
        return limit is not None and tokens + self.calibration > limit

    def shown(self, tokens: float) -> float:
        """Calibrate an estimate for a report."""
        return max(0, tokens + self.calibration)

    def refuse(self, code: str, what: str, tokens: float) -> SelectionError:
        """Make the error for a request that is too large."""
        limit = self.limits.budget
        return SelectionError(
            code,
            f"{what}: about {self.shown(tokens):,.0f} tokens",
            resident=self.resident,
            estimate=self.shown(tokens),
            budget=limit,
        )


class _Notice(NamedTuple):
    """Hold the normal notice of a run so far: what it points at, the message, its weight."""

    points: References
    message: Host | None = None
    weight: float = 0


class _Boundary(NamedTuple):
    """Hold the state behind an evicted unit: how many left, what stays, the notice, the key."""

    gone: int
    retained: float
    notice: _Notice
    frontier: Frontier | None

    @property
    def tokens(self) -> float:
        """What a request cut here weighs, before calibration."""
        return self.retained + self.notice.weight


class _Run(NamedTuple):
    """Hold how a run ended.

    Fields: `end`, the state at the end; `keyed`, that behind the last unit with a key, if any;
    `failed`, whether a message that should have a key has none; and what is sent.
    """

    mode: Mode
    tokens: float
    placed: tuple[Placed, ...]
    end: _Boundary
    keyed: _Boundary | None = None
    failed: bool = False


def _generated(kind: str, text: str) -> Placed:
    return Placed(kind, -1, user_message(text))


def _weight(placed: Placed) -> int:
    return host_tokens(placed.message)


def _stored(slots: Slots) -> list[Placed]:
    return [Placed("message", slot.at, slot.message) for slot in slots]


def _place(groups: Groups, count: int, notice: Host | None) -> tuple[Placed, ...]:
    """Put together what stays when the first units have left."""
    units = groups.units()[count:]
    front = [s for unit in units if unit.kind != "partialTurn" for s in unit.slots]
    behind = [s for unit in units if unit.kind == "partialTurn" for s in unit.slots]
    placed = [] if notice is None else [Placed("notice", -1, notice)]
    placed += _stored(front)
    if groups.active is not None:
        placed += _stored([*groups.active.envelope, *behind, *groups.active.trailing])
    return tuple(placed)


def _key(unit: Unit, groups: Groups, history: RawHistory) -> tuple[Frontier | None, bool]:
    """Find the key of a unit that leaves, and say whether one lacks that should be there."""
    for slot in reversed(unit.asked):
        if slot.message.get("role") not in ("user", "assistant"):
            continue
        if (key := history.key(slot.message)) is not None:
            asked = None
            if unit.kind == "partialTurn" and groups.active is not None:
                first = groups.active.envelope[0].message
                asked = history.key(first) if first.get("role") == "user" else None
            return Frontier(unit.kind, key, asked.history if asked else None), False
        if not slot.outgoing:
            return None, True
    return None, False


def _noticed(notice: _Notice, unit: Unit, basis: _Basis) -> _Notice:
    """Reword the notice when what left changes what it points at."""
    points = notice.points.past([slot.message for slot in unit.slots], basis.history)
    if notice.message is not None and points == notice.points:
        return notice
    placed = _generated("notice", basis.wording.notice(thousands(basis.limits.budget), *points))
    return _Notice(points, placed.message, _weight(placed))


def _protected(unit: Unit, history: RawHistory | None) -> bool:
    """Say whether a last exchange holds what the model has not seen: it ends raw history."""
    if unit.kind != "partialTurn" or history is None or not history.items:
        return False
    ids = call_ids(unit.slots[0].message)
    last = history.items[-1]
    if not ids or history.owner(unit.slots[0].message) is not last:
        return False
    given = [slot.message.get("toolCallId") for slot in unit.slots[1:]]
    stored = [result.get("toolCallId") for result in last.results]
    return ids == call_ids(last.message) and given == stored


def _exceptional(basis: _Basis, groups: Groups, unit: Unit, end: _Boundary) -> _Run:
    """Send protected results over the budget: in full where the window allows, else replaced."""
    window = basis.limits.window
    front = _generated("overflow-notice", basis.wording.overflow(thousands(basis.limits.budget)))
    rest = _place(groups, end.gone, None)
    tokens = end.retained + _weight(front)
    if not basis.over(tokens, window):
        return _Run("protected-overflow", tokens, (front, *rest), end)
    front = _generated("recovery-notice", basis.wording.recovery())
    tokens = end.retained - unit.weight() + unit.slots[0].weight
    instead: dict[int, Placed] = {}
    history = cast("RawHistory", basis.history).items[-1].id
    for slot in unit.slots[1:]:
        text = basis.wording.reference(history, slot.message["toolCallId"])
        message = {**slot.message, "content": [{"type": "text", "text": text}]}
        instead[slot.at] = Placed("reference", -1, message)
        tokens += _weight(instead[slot.at])
    tokens += _weight(front)
    if basis.over(tokens, window):
        raise basis.refuse("active-request-too-large", "protected exchange recovery", tokens)
    shown = (instead.get(placed.at, placed) for placed in rest)
    return _Run("recovery", tokens, (front, *shown), end)


def _run(basis: _Basis, groups: Groups, remembered: CutState | None, *, stateful: bool) -> _Run:
    """Evict units, oldest first, until what stays fits.

    Raises:
        SelectionError: `active-request-too-large`, `resident-input-too-large`.
    """
    budget, active = basis.limits.budget, groups.active
    fixed = groups.fixed(basis.resident)
    units = groups.units()
    notice = _Notice(References())
    if remembered is not None:
        weight = host_tokens(remembered.notice)
        notice = _Notice(References.of(remembered.frontier), remembered.notice, weight)
    retained = fixed + total(unit.weight() for unit in units)
    end = _Boundary(0, retained, notice, remembered.frontier if remembered else None)
    if not basis.over(end.tokens, budget):
        mode: Mode = "paged" if remembered else "within-budget"
        return _Run(mode, end.tokens, _place(groups, 0, notice.message), end)
    if active is not None and basis.over(fixed, budget):
        raise basis.refuse("active-request-too-large", "resident plus active request", fixed)
    goal = min(basis.limits.target, budget) if stateful else budget
    keyed = end if remembered else None
    failed = False
    while basis.over(end.tokens, goal):
        left = len(units) - end.gone
        protected = left == 1 and _protected(units[-1], basis.history)
        if not left or protected:
            if not basis.over(end.tokens, budget):
                break
            if protected:
                run = _exceptional(basis, groups, units[-1], end)
                return run._replace(keyed=keyed, failed=failed)
            code = "resident-input-too-large" if active is None else "active-request-too-large"
            raise basis.refuse(code, "resident and retained request", end.tokens)
        unit = units[end.gone]
        frontier, lacks = None, False
        if stateful and basis.history is not None:
            frontier, lacks = _key(unit, groups, basis.history)
        failed = failed or lacks
        notice = _noticed(end.notice, unit, basis)
        end = _Boundary(end.gone + 1, end.retained - unit.weight(), notice, frontier)
        keyed = end if frontier else keyed
    placed = _place(groups, end.gone, end.notice.message)
    return _Run("paged", end.tokens, placed, end, keyed, failed)


def _commit(basis: _Basis, view: Groups, run: _Run, remembered: CutState | None) -> Selection | str:
    """Give what a stateful run selects and remembers, or why it can't remember anything."""
    budget = basis.limits.budget
    if run.failed:
        return "cut-key-unresolved"
    if not run.end.gone:
        return Selection(run.placed, basis.shown(run.tokens), budget, run.mode, remembered)
    keyed = run.keyed
    if keyed is None or keyed.frontier is None or keyed.notice.message is None:
        return "keyless-no-key"
    cut = CutState(keyed.frontier, keyed.notice.message)
    if keyed is run.end:
        return Selection(run.placed, basis.shown(run.tokens), budget, run.mode, cut)
    if basis.over(keyed.tokens, budget):  # always, where that is the remembered cut itself
        return "keyless-snap-over-budget"
    placed = _place(view, keyed.gone, keyed.notice.message)
    return Selection(placed, basis.shown(keyed.tokens), budget, "paged", cut)


def _usable(estimates: Estimates, count: int) -> bool:
    """Say whether there is a weight for each message, and their sum is a number."""
    weights = estimates.resident, *estimates.messages
    return len(weights) == count + 1 and all(map(is_amount, weights)) and is_amount(total(weights))


def select_context(
    messages: Sequence[Host],
    *,
    token_budget: Any,
    trim_to_tokens: Any = ABSENT,
    model_context_window: Any = ABSENT,
    system_prompt: str = "",
    active_tools: Sequence[Host] = (),
    context_tokens: Any = None,
    estimates: Estimates | None = None,
    outgoing_only: Sequence[bool] = (),
    raw_history: Sequence[RawItem] | None = None,
    cut: CutState | None = None,
    wording: Wording | None = None,
) -> Selection:
    """Select what of a request is sent, as the paging extension does.

    Args:
        messages: the whole request, as the host's JSON.
        token_budget, trim_to_tokens, model_context_window: as `context_token_limits`.
        system_prompt, active_tools: what stands in front; weighed once.
        context_tokens: what the request measures by the provider's count; anything that is no
            finite number from 0 on counts as unknown.
        estimates: calibrated weights; used only where there is one for each message and
            `context_tokens` is known.
        outgoing_only: which messages are stored nowhere; ignored unless one for each message.
        raw_history: the stored items; None when they can't be had.
        cut: what the last selection remembered.
        wording: of what is generated; ours by default.

    Raises:
        SelectionError: `invalid-model-context`, `invalid-token-budget`, `invalid-trim-target`,
            `invalid-message-structure`, `resident-input-too-large`, `active-request-too-large`.
        InvalidArgument: `wrong-type`, a message can't be weighed.

    >>> old, new = ({"role": "user", "content": text * 400} for text in "ab")
    >>> items = [RawItem("h1", old), RawItem("h2", new)]
    >>> selected = select_context([old, new], token_budget=200, raw_history=items)
    >>> selected.mode, selected.cut.frontier
    ('paged', Frontier(kind='completedTurn', last=CutKey(history='h1', call=None), user=None))
    """
    limits = context_token_limits(token_budget, trim_to_tokens, model_context_window)
    measured = is_amount(context_tokens)
    resident: float = 0
    if measured and estimates is not None and _usable(estimates, len(messages)):
        resident, weights = estimates.resident, list(estimates.messages)
    else:
        resident = resident_tokens(system_prompt, active_tools)
        weights = [0 if m.get("role") == "system" else host_tokens(m) for m in messages]
    flags = outgoing_only if len(outgoing_only) == len(messages) else [False] * len(messages)
    slots = [
        Slot(at, message, weight, flag)
        for at, (message, weight, flag) in enumerate(zip(messages, weights, flags, strict=True))
    ]
    calibration = context_tokens - (resident + total(weights)) if measured else 0
    history = None if raw_history is None else RawHistory(raw_history)
    basis = _Basis(resident, calibration, limits, history, wording or default_wording())
    kept = normalise(slots)
    if not measured and resident > limits.budget:
        raise basis.refuse("resident-input-too-large", "resident input", resident)
    groups = group(kept)
    full = resident + total(slot.weight for slot in kept)
    if cut is None and not basis.over(full, limits.budget):
        placed = tuple(_stored(kept))
        return Selection(placed, basis.shown(full), limits.budget, "within-budget")
    return _decide(basis, groups, cut)


def _decide(basis: _Basis, groups: Groups, cut: CutState | None) -> Selection:
    """Select from the remembered cut on, or from nothing where that can't be."""
    history, view = basis.history, groups
    why = ""
    if history is None:
        why = "raw-history-unavailable"
    elif cut is not None:
        if not history.resolves(cut.frontier):
            why = "cut-key-unresolved"
        elif (rest := apply_cut(groups, cut.frontier, history)) is None:
            why = "frontier-not-in-groups"
        else:
            view = rest
    if not why:
        selected = _commit(basis, view, _run(basis, view, cut, stateful=True), cut)
        if not isinstance(selected, str):
            return selected
        why = selected
    run = _run(basis, groups, None, stateful=False)
    shown = basis.shown(run.tokens)
    return Selection(run.placed, shown, basis.limits.budget, run.mode, None, why)
