"""Skills in a journal: the scope, what a search allowed and what was loaded are notes on the path.

Theory of operation
-------------------
`noted` says as a note what an event made of the scope and of what a search allowed; the last note
on the path holds, so resuming, forking and travelling give it back. What a search allowed holds in
the profile in which it was made.

`loading` says as a note, in front of the message that holds them, which skills are loaded, with a
hash of each text. What of it still stands is never remembered but looked up: a skill is shown as
long as the message that it came in is shown and holds its text word for word. So a cut, a stub or
a file that changed since is reason enough to load it again, and nothing else is. Source: skills and
saver, sections 8 and 10.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from attrs import evolve, frozen

from ctxalgebra.errors import InvalidArgument
from ctxalgebra.model.checks import check_text, check_type, mistyped, read_json
from ctxalgebra.model.entries import Note
from ctxalgebra.model.parts import Message, Text
from ctxalgebra.model.session import Fold, Node, Session, check_session, fold
from ctxalgebra.model.view import View
from ctxalgebra.skills import session as events
from ctxalgebra.skills.given import members
from ctxalgebra.skills.loading import Loaded, bundle, section
from ctxalgebra.skills.profiles import Opened
from ctxalgebra.skills.records import Skill
from ctxalgebra.skills.scope import Kind, Scope
from ctxalgebra.skills.session import Read, Skills

__all__ = [
    "LOADED",
    "SCOPE",
    "Heard",
    "Load",
    "heard",
    "loaded_skills",
    "loading",
    "noted",
    "safely",
    "shown_skills",
    "skills_at",
]

SCOPE, LOADED = "skill-scope", "skills-loaded"
"""The names of the notes: what is chosen and allowed, and what was loaded."""

_VERSION = 1
_EXPECTED = 8
_KINDS: Mapping[object, Kind] = MappingProxyType(
    {"all": "all", "profile": "profile", "group": "group"}
)


@frozen
class Load:
    """Say where a skill was loaded.

    Args:
        name: of the skill.
        root: the skill that was asked for; the same, or one that needs it.
        number: of the entry that holds its text.
        digest: 24 hexadecimal digits of a hash of its text.
    """

    name: str
    root: str
    number: int
    digest: str


class _Chosen(NamedTuple):
    """What a note says of the scope; `profile` is the id of the one in use when it was written."""

    profile: str
    scope: Scope
    allowed: frozenset[str]


class _Expected(NamedTuple):
    """What a note says is loaded by the next result of a call, or by the next user message."""

    call: str
    root: str
    digests: Mapping[str, str]


class _Known(NamedTuple):
    chosen: _Chosen | None = None
    expected: tuple[_Expected, ...] = ()
    loads: Mapping[str, Load] = MappingProxyType({})


def _object(data: str) -> Mapping[str, object]:
    """Read the object in a note of this version; an empty one for anything else."""
    try:
        value: object = read_json(data)
    except ValueError:
        return {}
    given = members(value)
    version = given.get("version")
    return given if type(version) is int and version == _VERSION else {}


def _texts(*values: object) -> bool:
    """Say whether all are texts that a note can hold, which half a surrogate pair is not."""
    with suppress(InvalidArgument):
        for value in values:
            check_text(value, "data")
        return True
    return False


def _chosen(data: str) -> _Chosen | None:
    given = _object(data)
    scope = members(given.get("scope"))
    profile, allowed = given.get("profile"), given.get("allowed")
    kind = scope.get("kind")
    where, group = scope.get("profile"), scope.get("group")
    if not _texts(profile, kind, where, group) or not isinstance(allowed, list):
        return None
    names = cast("list[object]", allowed)
    if kind not in _KINDS or not _texts(*names):
        return None
    chosen = Scope(_KINDS[kind], cast("str", where), cast("str", group))
    return _Chosen(cast("str", profile), chosen, frozenset(cast("list[str]", names)))


def _expected(data: str) -> _Expected | None:
    given = _object(data)
    call, root, skills = given.get("call"), given.get("root"), given.get("skills")
    digests = members(skills)
    if not _texts(call, root, *digests, *digests.values()) or not isinstance(skills, dict):
        return None
    return _Expected(cast("str", call), cast("str", root), cast("Mapping[str, str]", digests))


def _said(known: _Known, note: Note) -> _Known:
    if note.name == SCOPE:
        return known._replace(chosen=_chosen(note.data) or known.chosen)
    found = _expected(note.data) if note.name == LOADED else None
    if found is None:
        return known
    return known._replace(expected=(*known.expected, found)[-_EXPECTED:])


def _step(known: _Known, node: Node, _view: View) -> _Known:
    entry = node.entry
    if isinstance(entry, Note):
        return _said(known, entry)
    message = cast("Message", entry)
    if not known.expected or message.role not in ("tool", "user"):
        return known
    # Of several the last counts: whoever travels to a note leaves what it expected behind.
    found = next((one for one in reversed(known.expected) if one.call == message.call), None)
    if found is None:
        return known
    fresh = {
        name: Load(name, found.root, node.number, digest) for name, digest in found.digests.items()
    }
    rest = tuple(one for one in known.expected if one.call != message.call)
    return known._replace(expected=rest, loads=MappingProxyType({**known.loads, **fresh}))


_KNOWN: Fold[_Known] = Fold("skills", _Known(), _step, reads=(Note, Message))


def _note(name: str, **data: object) -> Note:
    value = {"version": _VERSION, **data}
    return Note(name, json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def skills_at(session: Session, skills: Skills) -> Skills:
    """Give skills with the scope that was chosen on this path, and what a search allowed on it.

    Args:
        session: whose notes are read.
        skills: what there is; its scope holds where none was chosen yet.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> from ctxalgebra.model.gate import record
    >>> start = Skills((Skill("a"),))
    >>> chosen = events.chosen(start, Scope("all"))
    >>> skills_at(record(Session(), *noted(start, chosen)), start) == chosen
    True
    """
    check_session(session)
    check_type(skills, Skills, "skills")
    found = fold(session, _KNOWN).chosen
    if found is None:
        return evolve(skills, allowed=frozenset())
    same = found.profile == skills.profiles.active.id
    return evolve(skills, scope=found.scope, allowed=found.allowed if same else frozenset())


def noted(before: Skills, after: Skills) -> tuple[Note, ...]:
    """Say as a note what an event made of the scope and of what a search allowed.

    Args:
        before, after: what `skills_at` gave, and what came of it.

    Returns:
        Nothing where nothing changed.

    >>> some = Skills((Skill("a"),))
    >>> noted(some, some)
    ()
    >>> noted(some, evolve(some, allowed=frozenset({"a"})))[0].data
    ... # doctest: +NORMALIZE_WHITESPACE
    '{"version":1,"profile":"default","scope":{"kind":"profile","profile":"","group":""},"allowed":["a"]}'
    """
    if before.scope == after.scope and before.allowed == after.allowed:
        return ()
    scope = {name: getattr(after.scope, name) for name in ("kind", "profile", "group")}
    profile = after.profiles.active.id
    return (_note(SCOPE, profile=profile, scope=scope, allowed=sorted(after.allowed)),)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def loading(loaded: Loaded, call: str = "") -> Note:
    """Make the note that says what the next message loads.

    Args:
        loaded: skills whose texts it holds.
        call: the id of the call that it answers; empty for a user message.

    >>> loading(Loaded(("a",), ((Skill("a"), "Do it"),)), "c1").data
    '{"version":1,"call":"c1","root":"a","skills":{"a":"8af08d741b31f5a2192f1691"}}'
    """
    digests = {skill.name: _digest(text) for skill, text in loaded.bodies}
    return _note(LOADED, call=call, root=", ".join(loaded.roots), skills=digests)


def loaded_skills(session: Session) -> tuple[Load, ...]:
    """List the skills that were loaded on this path, each where it was last, in that order.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> loaded_skills(Session())
    ()
    """
    check_session(session)
    return tuple(sorted(fold(session, _KNOWN).loads.values(), key=lambda load: load.number))


def _standing(view: View, number: int) -> Message | None:
    """Give a message as it is shown, or about to be; None where it is not."""
    slot = view.slot(number)
    if slot >= 0:
        return view.slots.messages[slot]
    soon = (*view.results.values(), *view.waiting)
    return next((message for at, message in soon if at == number), None)


def shown_skills(session: Session, loaded: Loaded) -> dict[str, str]:
    """Say which skills need not be loaded again, since they are shown word for word.

    Args:
        session: what was loaded in it counts as long as it is shown.
        loaded: skills with their texts as they are now.

    Returns:
        By name, the skill that each came with.

    >>> shown_skills(Session(), Loaded(("a",), ((Skill("a"), "Do it"),)))
    {}
    """
    known = fold(session, _KNOWN).loads
    shown: dict[str, str] = {}
    for skill, text in loaded.bodies:
        load = known.get(skill.name)
        if load is None or load.digest != _digest(text):
            continue
        message = _standing(session.view, load.number)
        whole = section(skill, text)
        parts = message.parts if message else ()
        if any(isinstance(part, Text) and whole in part.text for part in parts):
            shown[skill.name] = load.root
    return shown


def safely(read: Mapping[str, str] | Read) -> Read:
    """Read skills so that whatever fails is an error of ours.

    Args:
        read: texts by name, or what gives the text of a skill's file.

    Returns:
        A function that raises `InvalidArgument` `unreadable` where there is no text.

    >>> safely({"a": "Do it"})(Skill("a"))
    'Do it'
    """
    given: Any = read
    if not callable(given) and not isinstance(given, Mapping):
        raise mistyped(read, "texts by name, or a function", "read")
    give: Read = read if callable(read) else lambda skill: read[skill.name]

    def reading(skill: Skill) -> str:
        try:
            text: Any = give(skill)
        except Exception as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            message = f"the file of {skill.name} can't be read: {why}"
            raise InvalidArgument("unreadable", message, field="name") from error
        if not isinstance(text, str):
            raise InvalidArgument("unreadable", f"{skill.name} has no text", field="name")
        return text

    return reading


@frozen
class Heard:
    """Hold what becomes of a text that a person typed.

    Args:
        text: what the model gets; empty where it gets nothing.
        notice: one sentence for who typed it; empty for none.
        notes: what is to be recorded in front of it.
        profiles: as they are now; to be stored where they changed.
    """

    text: str
    notice: str
    notes: tuple[Note, ...]
    profiles: Opened


def heard(session: Session, text: str, *, skills: Skills, read: Mapping[str, str] | Read) -> Heard:
    r"""Read a text that a person typed, and say what is to be recorded.

    A skill that is called by name and shown already is named, not shown again.

    Args:
        session: what was chosen and loaded in it counts.
        text: what was typed.
        skills: as `skills_at` takes them.
        read: as `safely` takes it; what fails is told in `notice`.

    Raises:
        InvalidArgument: `wrong-type`.

    >>> found = heard(Session(), "/skill:a go", skills=Skills((Skill("a"),)), read={"a": "Do it"})
    >>> found.text.endswith("Do it\n\n</skill-orchestrator>\n\n# Task\n\ngo"), len(found.notes)
    (True, 1)
    """
    now = skills_at(session, skills)
    check_type(text, str, "text")

    def write(found: Loaded) -> str:
        return bundle(found, shown=shown_skills(session, found))

    after, typed = events.typed(now, text, safely(read), write=write)
    notes = noted(now, after)
    if typed.loaded is not None:
        again = shown_skills(session, typed.loaded)
        fresh = [pair for pair in typed.loaded.bodies if pair[0].name not in again]
        if fresh:
            notes += (loading(evolve(typed.loaded, bodies=tuple(fresh))),)
    going = {"continue": text, "handled": "", "transform": typed.text}[typed.action]
    return Heard(going, typed.notice, notes, after.profiles)
