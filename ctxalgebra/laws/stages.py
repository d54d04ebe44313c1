"""Laws of stages on sessions."""

from __future__ import annotations

import pickle
from contextlib import suppress

from ctxalgebra.account import dry_run
from ctxalgebra.calibration import costs
from ctxalgebra.errors import CtxError
from ctxalgebra.laws.evidence import Law, quieted
from ctxalgebra.model.entries import Cut, Label, Note
from ctxalgebra.model.gate import record
from ctxalgebra.model.parts import user
from ctxalgebra.model.session import Node, Session, at_leaf, log
from ctxalgebra.model.view import Measure
from ctxalgebra.project import project, send
from ctxalgebra.tokens import chars4
from ctxalgebra.transforms.pipeline import Stage
from ctxalgebra.transforms.select import Evicted, default_notice, pressure

__all__ = [
    "appends",
    "branch_isolation",
    "determinism",
    "dry_run_foretells",
    "fits_budget",
    "idempotence",
    "inputs_unchanged",
    "not_a_session",
    "quiet",
    "recorded_otherwise",
    "totality",
]


def _copy(session: Session) -> Session:
    copy: Session = pickle.loads(pickle.dumps(session))  # noqa: S301 - bytes of our own
    return copy


def _added(session: Session, after: Session) -> list[object]:
    return [node.entry for node in log(after)[len(session) :]]


def recorded_otherwise(session: Session, first: Session, again: Session) -> str:
    """Say how two answers to one session differ."""
    return f"it recorded {_added(session, first)}, then {_added(session, again)}"


# Sessions


def totality(stage: Stage, session: Session) -> str | None:
    """A stage raises nothing on a legal session."""
    try:
        after = stage(session)
    except Exception as error:  # noqa: BLE001 - whatever it raises is the counterexample
        return f"the stage raises {type(error).__name__}: {error}"
    wrong = not_a_session(after)
    return f"the stage {wrong}" if wrong else None


def not_a_session(answer: object) -> str | None:
    """Say of what a stage gave back why it can't be right; None for a session."""
    if type(answer) is not Session:
        return f"returns {type(answer).__name__}, not a session"
    return None


def appends(stage: Stage, session: Session) -> str | None:
    """What a stage gives back begins, entry by entry, with the journal that it was given."""
    before, after = log(session), log(stage(session))
    if len(after) < len(before):
        return f"{len(before) - len(after)} entries are gone"
    for old, new in zip(before, after, strict=False):
        if old.entry != new.entry or _parent(old) != _parent(new):
            return f"entry {old.number} is another"
    return None


def _parent(node: Node) -> int:
    return -1 if node.parent is None else node.parent.number


def inputs_unchanged(stage: Stage, session: Session) -> str | None:
    """A stage leaves its input as it was."""
    shown, length = project(session), len(session)
    image = pickle.dumps(session)
    with suppress(Exception):  # what raises is for totality to tell
        stage(session)
    if pickle.dumps(session) != image or len(session) != length:
        return "the journal that was passed in changed"
    if project(session) != shown:
        return "the request of the session that was passed in changed"
    return None


def determinism(stage: Stage, session: Session) -> str | None:
    """Equal sessions get equal decisions, whatever they remember."""
    first = stage(session)
    for again in (stage(session), stage(_copy(session))):
        if again != first:
            return recorded_otherwise(session, first, again)
        if project(again) != project(first):
            return "the same journal gives two requests"
    return None


def quiet(stage: Stage, session: Session) -> str | None:
    """With nothing to do, a stage returns the same object."""
    after = stage(session)
    if after is not session and len(after) == len(session) and after == session:
        return "nothing was recorded, but another object came back"
    return None


def idempotence(stage: Stage, session: Session) -> str | None:
    """Called again at once, a stage has nothing to do."""
    once = stage(session)
    twice = stage(once)
    if twice != once:
        return f"called again at once, it records {_added(once, twice)}"
    return None


_MANY = (Note("elsewhere"),) * 64


def branch_isolation(stage: Stage, session: Session) -> str | None:
    """What is recorded on one branch changes nothing on another."""
    shown, alone = project(session), project(stage(session))
    leaf = -1 if session.leaf is None else session.leaf.number
    for start in sorted({-1, leaf, 0 if len(session) else -1}):
        here = at_leaf(session, start)
        branch = record(quieted(here), user("elsewhere " * 600), user("and on"), *_MANY)
        back = at_leaf(branch, leaf)
        for entry in log(branch)[len(session) : len(branch) - len(_MANY)]:
            branch = record(branch, Label(entry.number, "elsewhere"))
        if project(back) != shown:
            return f"a branch from entry {start} changes what is shown at entry {leaf}"
        if project(stage(at_leaf(branch, leaf))) != alone:
            return f"a branch from entry {start} changes what the stage does at entry {leaf}"
    return _forked(session)


def _forked(session: Session) -> str | None:
    """Record two things on the same session: neither may see the other."""
    base = quieted(session)
    shown = project(base).messages
    texts = ("one", "two", "three")
    forks = [record(base, user(text)) for text in texts]
    forks += [record(fork, user("more")) for fork in forks]
    for fork, text in zip(forks, texts + texts, strict=True):
        more = (user("more"),) if len(fork) > len(base) + 1 else ()
        if project(fork).messages != (*shown, user(text), *more):
            return "two continuations of one session see one another"
    return None if project(base).messages == shown else "continuing a session changed it"


def dry_run_foretells(stage: Stage, session: Session) -> str | None:
    """A dry run tells what then happens."""
    session = quieted(session)
    told = dry_run(stage, session)
    after = stage(session)
    if list(told.entries) != _added(session, after):
        return "the stage records other entries than the dry run told"
    if not after.view.end:
        return None
    sent, request = send(after)
    if told.broke != sent.view.broke:
        return f"the dry run told the break {told.broke}, it was {sent.view.broke}"
    if told.input != chars4(request.head) + sum(map(chars4, request.messages)):
        return f"the dry run told {told.input} tokens of input"
    return None


def fits_budget(
    *, budget: int, reserve: int = 0, window: int | None = None, measure: Measure = chars4
) -> Law:
    """Make the goal of a stage that keeps a budget, from the parameters it was given.

    Holds when the request fits the limit, or when `pressure` says that nothing can be cut and
    the gate agrees: no cut in front of the active request would make it smaller.

    >>> from functools import partial
    >>> from ctxalgebra import record, select
    >>> law = fits_budget(budget=50)
    >>> law.broken(partial(select, budget=50), record(Session(), user("x" * 400))) is None
    True
    """

    def broken(stage: Stage, session: Session) -> str | None:
        after = stage(session)
        now = pressure(after, budget=budget, reserve=reserve, window=window, measure=measure)
        if now.fits or after.view.flight >= 0:
            return None
        if now.cuttable:
            return f"{now.estimate} tokens are left for {now.limit}, and a cut could take more"
        if (through := _cuttable(after, measure)) is not None:
            return f"{now.estimate} tokens are left for {now.limit}, though {through} can be cut"
        return None

    return Law(
        "fits-budget",
        "goal",
        "The request fits its budget, or only protected content is left and `pressure` says so.",
        broken,
    )


def _cuttable(session: Session, measure: Measure) -> int | None:
    """Find the end of an earlier turn through which the gate lets a cut go that is worth it."""
    view = session.view
    array = view.messages()
    known = costs(session, measure=measure)
    for slot in range(view.front + 1, view.end):
        if array[slot].role == "user" and array[slot - 1].role != "user":
            through = view.slots.numbers[slot - 1]
            notice = user(default_notice(Evicted(through, through, 1)))
            try:
                record(session, Cut(through, notice, "may it go?", breaks=True))
            except CtxError:
                continue
            # The thinking that a cut hides behind it is no reason to cut.
            if known.fit.scaled(measure(notice)) < known.sums[slot]:
                return through
    return None
