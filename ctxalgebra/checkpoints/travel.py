"""Travel with a handoff: plan it, look at the plan, apply it.

`plan_travel` asks every gate and gives a refusal or a plan; `apply_travel` records it: the return
ticket on the branch that is left, then `events.travel`, then what the model goes on from. Nothing
is deleted, so every branch can be reached by its ticket or by number, and going back to a request
that was sent brings back its bytes, which the provider may still have.

A state that is broken at the leaf holds up nothing: what matters is where the journey lands (W07).
Source: travel, sections 11 and 12.
"""

from __future__ import annotations

from itertools import islice
from typing import Literal, TypeAlias

from attrs import frozen

from ctxalgebra.checkpoints.distance import newest_work
from ctxalgebra.checkpoints.handoff import Handoff, build_handoff, format_defect, ticket_name
from ctxalgebra.checkpoints.names import LONGEST_NAME, is_name, is_new_name, name_conflict
from ctxalgebra.checkpoints.provenance import (
    Facts,
    frame,
    journeys,
    note,
    summary_depth,
    turn_open,
    was_left,
)
from ctxalgebra.checkpoints.receipts import GIVEN_UP, Size, size_of
from ctxalgebra.checkpoints.refusals import Refusal
from ctxalgebra.checkpoints.targets import (
    LONGEST_TARGET,
    Target,
    complete_places,
    free_name,
    is_addressable,
    names_of,
    resolve_target,
)
from ctxalgebra.errors import InvalidArgument
from ctxalgebra.events import abandon, behind, is_reminder, label, open_calls, travel
from ctxalgebra.explain import carried
from ctxalgebra.model.checks import check_text, check_type, mistyped
from ctxalgebra.model.entries import Answer, Ask, Label, Note, Sent, UsageReport
from ctxalgebra.model.gate import record
from ctxalgebra.model.head import Head
from ctxalgebra.model.parts import Message
from ctxalgebra.model.session import Session, at_node, check_session, find
from ctxalgebra.model.view import HEAD, Measure, Slots, View, weigh
from ctxalgebra.tokens import chars4

__all__ = ["ReturnTicket", "TravelPlan", "apply_travel", "plan_travel"]

Journey: TypeAlias = Literal["fold", "rehydrate", "fork"]

_LONGEST = 40_000
"""So many characters may the slots of a handoff have: it is to make a context smaller."""

_NEAR = 64
"""A request that was sent behind the landing is looked for among so many entries."""

_BESIDE = (Label, Note, UsageReport, Ask, Answer)


@frozen
class ReturnTicket:
    """Name the branch that is left.

    Args:
        name: the label; one that is no proper name is kept where it was there already.
        place: the entry that has it, or gets it: the newest whose request could leave.
        status: `present` when the entry had it already.
        displaced: a label that nobody could write as a target, and that gives way.
    """

    name: str
    place: int
    status: Literal["created", "present"]
    displaced: str = ""


@frozen
class TravelPlan:
    """Say what travelling would do, and what it would cost.

    Args:
        kind: `fold` back along the path; off the path `rehydrate` a branch that was left by
            travelling, or `fork` from the middle of one.
        target: where it goes.
        ticket: how to come back.
        handoff: what the model gets, with the ticket in its `recover`.
        facts: what the note records.
        abandoned: ids of calls that have no result where the journey lands; they get an error.
        carried: entries of messages that wait behind the open calls, which the model has never
            seen; they are recorded again behind the handoff.
        before, after: what is shown now, and then.
        depth_before, depth_after: handoffs on the path.
        cached: of the tokens after, how many lead a request that was sent already; at least, since
            requests of other branches may have more. 0 when the head is another one.
        notices: facts that hold up nothing: `target-off-path`, `target-in-tool-round`,
            `target-open-user-turn`, `target-no-message`, `ticket-in-front` (what came behind the
            ticket can be reached by number only), `grows` (a fold that makes the request no
            smaller: the handoff weighs as much as what goes).
        size: entries of the session that it was made for.
        leaf: current entry of that session, -1 for none.
    """

    kind: Journey
    target: Target
    ticket: ReturnTicket
    handoff: Handoff
    facts: Facts
    abandoned: tuple[str, ...]
    carried: tuple[int, ...]
    before: Size
    after: Size
    depth_before: int
    depth_after: int
    cached: int
    notices: tuple[str, ...]
    size: int
    leaf: int


def plan_travel(
    session: Session,
    *,
    target: str,
    handoff: object,
    ticket: str | None = None,
    call: str = "",
    aborted: bool = False,
    measure: Measure = chars4,
) -> TravelPlan | Refusal:
    """Say what travelling would do, or why it can't be done; record nothing.

    After the first question about a session, travelling along the path looks at a number of entries
    that doesn't depend on the length of the session: at those behind the target up to the next
    message or request only where a cut or another edit was recorded behind it.

    Args:
        session: read at its leaf.
        target: `#12`, `root` or a label, at most 1,000 characters.
        handoff: an object with the slots, or its JSON text; at most 40,000 characters together.
        ticket: name of the branch that is left, at most 200 characters; by default the label that
            its place has, else one that is made from the goal.
        call: id of the tool call that asks for it; it must be alone in its message.
        aborted: the caller has given it up.
        measure: of tokens.

    Returns:
        The plan, or the first refusal in the order of section 12.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra import Session, assistant, record, reply, send, user
    >>> session, _ = send(record(Session(), user("Fix the parser")))
    >>> session = record(reply(session, "completed", assistant("Looking.")), user("Go on"))
    >>> notes = {"goal": "Fix the parser", "state": "nothing yet", "next": "read it"}
    >>> plan = plan_travel(session, target="root", handoff=notes)
    >>> plan.kind, plan.ticket.name, plan.before.messages, plan.after.messages, plan.cached
    ('fold', 'fix-the-parser-raw', 3, 2, 4)
    >>> plan_travel(session, target="root", handoff={"goal": "none"}).code
    'invalid-handoff'
    """
    check_session(session)
    check_text(call, "call")
    check_type(aborted, bool, "aborted")
    if ticket is not None and not isinstance(ticket, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers
        raise mistyped(ticket, "a text or None", "ticket")
    refused = _asked(session, target, ticket, call)
    if refused is not None:
        return refused
    built = _built(handoff)
    if isinstance(built, Refusal):
        return built
    beside = [other for other in session.view.open if other != call]
    if beside and len(beside) < len(session.view.open):
        return Refusal("mixed-tool-batch", "call it again, alone in its message")
    found = resolve_target(session, target)
    if isinstance(found, Refusal):
        return found
    leaf = session.leaf
    if leaf is None:
        return Refusal("no-active-leaf", "there is nothing to leave")
    if leaf.number == found.number:
        return Refusal("already-at-target", "it is the current entry: go on from here")
    if aborted:
        return Refusal("aborted", "nothing was recorded")
    place = complete_places(session).newest
    landed = travel(session, found.number)
    landing = _landing(session, landed)
    if _is_shown(session, found, landing, place, landed.view):
        text = "nothing but checkpoints and calls like this one would go: go on from here"
        return Refusal("zero-distance-travel", text)
    if place < 0:
        text = "no request could leave from the path that would be left"
        return Refusal("no-protocol-complete-backup-target", text)
    backup = _ticket(session, place, ticket, built.goal)
    if isinstance(backup, Refusal):
        return backup
    facts = Facts(
        leaf.number,
        target.strip(),
        found.number,
        landing,
        backup.name,
        place,
        call,
        turn_open(session),
        journeys(session) + 1,
    )
    if is_name(backup.name):
        named = build_handoff(_slots(built), raw_archive=backup.name)
        built = named if isinstance(named, Handoff) else built
    return _plan(session, landed, found, backup, built, facts, measure)


# The gates


def _asked(session: Session, target: object, ticket: str | None, call: str) -> Refusal | None:
    if not isinstance(target, str):
        raise mistyped(target, "a text", "target")
    wrong = [] if target.strip() else ["the target is blank"]
    if len(target.strip()) > LONGEST_TARGET:
        wrong.append(f"a target has at most {LONGEST_TARGET:,} characters")
    if len(call) > LONGEST_TARGET:
        wrong.append(f"the id of the call has more than {LONGEST_TARGET:,} characters")
    if ticket is not None and not is_new_name(ticket):
        text = f"use letters, digits, . _ -, at most {LONGEST_NAME}"
        wrong.append(f"{ticket!r:.80} is no name of a ticket: {text}")
    if wrong:
        return Refusal("invalid-params", "; ".join(wrong))
    if ticket is not None and name_conflict(names_of(session), -1, ticket) == "reserved-name":
        return Refusal("reserved-backup-name", "the name stands for the first entry")
    return None


def _built(given: object) -> Handoff | Refusal:
    handoff = build_handoff(given)
    if not isinstance(handoff, Handoff):
        told = "; ".join(map(format_defect, handoff))
        return Refusal("invalid-handoff", told.encode(errors="replace").decode(), handoff)
    long = sum(map(len, _slots(handoff).values()))
    if long > _LONGEST:
        text = f"its slots have {long:,} characters together, and may have {_LONGEST:,}"
        return Refusal("invalid-handoff", text)
    for slot, text in _slots(handoff).items():
        try:
            check_text(text, slot)
        except InvalidArgument as error:
            return Refusal("invalid-handoff", f"{slot}: {error.message}")
    return handoff


def _slots(handoff: Handoff) -> dict[str, str]:
    return dict(zip(Handoff.__match_args__, (text for _, text in handoff.slots()), strict=True))


def _landing(session: Session, landed: Session) -> int:
    """Find the newest entry of the session on the path of where the journey landed."""
    node = landed.leaf
    while node is not None and node.number >= len(session):
        node = node.parent
    return -1 if node is None else node.number


def _is_shown(session: Session, target: Target, landing: int, place: int, view: View) -> bool:
    """Say whether a journey would take nothing away from what is in front of the call (W02)."""
    if place < 0:
        return False
    there = at_node(session, find(session, place))
    if not target.off_path and landing >= newest_work(there):
        return True
    now = there.view
    if view.slots is now.slots or view.end != now.end:
        return view.end == now.end
    # Branches differ at their ends, mostly.
    last = view.end - 1
    same = view.slots.messages[last] == now.slots.messages[last]
    return same and view.messages() == now.messages()


def _ticket(session: Session, place: int, name: str | None, goal: str) -> ReturnTicket | Refusal:
    known = names_of(session)
    old = known.names.get(place, "")
    kept = is_addressable(old)
    if kept and name in (None, old):
        return ReturnTicket(old, place, "present")
    if name is None:
        return ReturnTicket(free_name(session, ticket_name(goal, ())), place, "created", old)
    if name_conflict(known, place, name) == "duplicate-name":
        return Refusal("duplicate-backup-name", f"another entry has the name {name!r:.80}")
    if kept:
        text = f"what you leave has the label {old!r:.80} already: leave the name out"
        return Refusal("backup-displaces-existing-label", text)
    return ReturnTicket(name, place, "created", old)


# What it comes to


def _plan(
    session: Session,
    landed: Session,
    target: Target,
    ticket: ReturnTicket,
    handoff: Handoff,
    facts: Facts,
    measure: Measure,
) -> TravelPlan:
    kind: Journey = "fold"
    if target.off_path:
        kind = "rehydrate" if was_left(session, target.number) else "fork"
    after = _arrived(session, landed, facts, handoff)
    depth = summary_depth(session)
    before, then = size_of(session.view, measure), size_of(after.view, measure)
    grows = ("grows",) if kind == "fold" and then.tokens >= before.tokens else ()
    return TravelPlan(
        kind,
        target,
        ticket,
        handoff,
        facts,
        open_calls(landed),
        tuple(number for number, _ in _waiting(session)),
        before,
        then,
        depth,
        summary_depth(landed) + 1,
        _cached(session, after.head, facts.landed, measure),
        (*_notices(session, landed, target, facts), *grows),
        len(session),
        facts.origin,
    )


def _notices(session: Session, landed: Session, target: Target, facts: Facts) -> tuple[str, ...]:
    message = carried(find(session, target.number, along="log"))
    behind_ticket = session.view.end - at_node(session, find(session, facts.place)).view.end
    told = {
        "target-off-path": target.off_path,
        "target-in-tool-round": bool(landed.view.open),
        "target-open-user-turn": turn_open(landed),
        "target-no-message": message is None or message.role not in ("user", "assistant"),
        "ticket-in-front": behind_ticket > (facts.call in session.view.open),
    }
    return tuple(name for name, holds in told.items() if holds)


def _cached(session: Session, head: Head, landing: int, measure: Measure) -> int:
    """Measure what leads a request that was sent, as far as the landing and the path tell."""
    there = find(session, landing, along="log") if landing >= 0 else None
    stood = at_node(session, there).view
    shown = -1
    if stood.sent is not None and stood.sent.head == head:
        # Behind a break that no request has shown yet, slots stand elsewhere than they were sent.
        broke = None if stood.flight >= 0 else stood.broke
        shown = stood.fixed if broke is None else min(stood.fixed, max(broke.at, 0))
    if there is not None and stood.head == head:
        for child in islice(behind(session, there), _NEAR):
            if type(child.entry) is Sent:
                shown = stood.end
            if type(child.entry) not in _BESIDE:
                break
    sent = session.view.sent
    if sent is not None and sent.head == head:
        shown = max(shown, _leads(sent.slots, stood.slots, min(sent.end, stood.end)))
    return weigh(measure, head) + stood.slots.total(measure, shown) if shown >= 0 else 0


def _leads(one: Slots, other: Slots, most: int) -> int:
    """Count how many of the first slots are alike; at once where it is one array."""
    if one is other or one.messages[:most] == other.messages[:most]:
        return most
    return next(i for i in range(most) if one.messages[i] != other.messages[i])


def _waiting(session: Session) -> list[tuple[int, Message]]:
    """List what waits behind the calls that are left; reminders are about what is left."""
    found: list[tuple[int, Message]] = []
    for number, message in session.view.waiting:
        node = find(session, number)
        if node is None or not is_reminder(node):
            found.append((number, message))
    return found


def _arrived(session: Session, landed: Session, facts: Facts, handoff: Handoff) -> Session:
    """Record what follows the landing."""
    for call in open_calls(landed):
        landed = abandon(landed, call, GIVEN_UP)
    waiting = [message for _, message in _waiting(session)]
    landed = record(landed, note(facts), frame(facts, handoff), *waiting)
    if landed.head != session.head and not landed.view.holds_loop(HEAD):
        landed = record(landed, session.head)
    return landed


def apply_travel(session: Session, plan: TravelPlan) -> Session:
    """Travel as planned: the next request goes on from the target, with the handoff.

    Records the return ticket where it is new; then, on the other branch, what `events.travel`
    records, an error result for each call that is abandoned, a note with the facts, the handoff and
    what waited. The call that asked for it stays open on the branch that it stands on: its answer
    is the journey.

    Raises:
        InvalidArgument: `invalid-argument`, the plan was made for another session; `wrong-type`.

    >>> from ctxalgebra import Session, assistant, project, record, reply, send, user
    >>> session, first = send(record(Session(), user("Fix the parser")))
    >>> session = record(reply(session, "completed", assistant("Looking.")), user("Go on"))
    >>> notes = {"goal": "Fix the parser", "state": "nothing yet", "next": "read it"}
    >>> folded = apply_travel(session, plan_travel(session, target="root", handoff=notes))
    >>> project(folded).extends(first), len(project(folded).messages)
    (True, 2)
    """
    check_session(session)
    check_type(plan, TravelPlan, "plan")
    leaf = -1 if session.leaf is None else session.leaf.number
    if (plan.size, plan.leaf) != (len(session), leaf):
        raise InvalidArgument("invalid-argument", "it is for another session", field="plan")
    ticketed = session
    if plan.ticket.status == "created":
        ticketed = label(session, plan.ticket.place, plan.ticket.name)
    landed = travel(ticketed, plan.target.number)
    return _arrived(session, landed, plan.facts, plan.handoff)
