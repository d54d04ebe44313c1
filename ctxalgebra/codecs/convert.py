"""Conversion between formats: everything that both can hold, and a list of what is lost.

A session that was read from the target's format, or goes into our journal, is written as that
codec writes it. Any other is written from its messages: the wire texts that they were read from
belong to the source's format and are left behind, and so are signatures of another provider, which
the target's would refuse (rules T1, V-G4).

What is lost is not guessed: the result is decoded again and compared with the session
(`ctxalgebra.codecs.losses`). Fields that no codec reads are left behind without a word, but for
the signatures of texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attrs import evolve, frozen

from ctxalgebra.codecs import CODECS, Codec, journal
from ctxalgebra.codecs.intake import FRAME, taken
from ctxalgebra.codecs.lines import LIMIT
from ctxalgebra.codecs.losses import Loss, lines, loss, losses, notes, signed_texts
from ctxalgebra.errors import DecodeError, InvalidArgument
from ctxalgebra.model.entries import Cut, Entry, Note, Replace, Reply
from ctxalgebra.model.head import Head, Route
from ctxalgebra.model.parts import Message, Part, Thinking, ToolCall
from ctxalgebra.model.session import Session, append, log

__all__ = ["FAMILIES", "Conversion", "convert"]

FAMILIES: Mapping[str, str] = MappingProxyType(
    {
        "anthropic-messages": "anthropic",
        "claude-code": "anthropic",
        "codex": "openai",
        "gemini-contents": "google",
        "openai-responses": "openai",
    }
)
"""Whose signatures a format holds; the others hold any."""

_NAMES = (
    ("anthropic", ("anthropic", "claude")),
    ("google", ("gemini", "google", "vertex")),
    ("openai", ("openai", "codex", "gpt")),
)
_NOTED = ("journal", "pi")
"""Formats that keep a host's own records."""


@frozen
class Conversion:
    """Hold the bytes in the other format, and what they don't hold, by place."""

    data: bytes
    losses: tuple[Loss, ...]


# Writing anew


def _family(route: Route) -> str:
    """Tell whose signatures a route gives."""
    names = f"{route.provider}/{route.model}".lower()
    return next((family for family, parts in _NAMES if any(p in names for p in parts)), "")


class _Rewriter:
    """The same journal without wire texts, and without signatures that the target refuses."""

    def __init__(self, session: Session, to: str) -> None:
        self.losses: list[Loss] = []
        source, _ = taken(session)
        self._known = FAMILIES.get(source)
        self._wanted = FAMILIES.get(to)
        nodes = log(session)
        parents = {node.number: -1 if node.parent is None else node.parent.number for node in nodes}
        forks = {above for number, above in parents.items() if above != number - 1}
        kept = {-1: Session()}
        routes = {-1: Route()}
        made = Session()
        for node in nodes:
            number, entry, above = node.number, node.entry, parents[node.number]
            if above != number - 1:
                made = Session(kept[above].leaf, made.last, kept[above].view)
            routes[number] = entry.route if isinstance(entry, Head) else routes[above]
            made = append(made, self._entry(number, entry, routes[number]))
            if number in forks or node is session.leaf:
                kept[number] = made
        there = kept[-1 if session.leaf is None else session.leaf.number]
        self.session = Session(there.leaf, made.last, there.view)

    def _entry(self, number: int, entry: Entry, route: Route) -> Entry:
        match entry:
            case Message():
                return self._message(number, entry, route)
            case Reply() | Replace() if entry.message is not None:
                return evolve(entry, message=self._message(number, entry.message, route))
            case Cut():
                return evolve(entry, notice=self._message(number, entry.notice, route))
            case _:
                return entry

    def _message(self, number: int, message: Message, route: Route) -> Message:
        parts = message.parts
        known = self._known or _family(route)
        if self._wanted is not None and known != self._wanted:
            shown = [self._unsigned(number, part) for part in parts]
            parts = tuple(part for part in shown if part is not None)
        return evolve(message, origin="", parts=parts)

    def _unsigned(self, number: int, part: Part) -> Part | None:
        if not isinstance(part, Thinking | ToolCall):
            return part
        redacted = isinstance(part, Thinking) and part.redacted
        if not (part.signature or redacted):
            return part
        self.losses.append(loss("signature", number, part.kind))
        return None if redacted else evolve(part, signature="")


def _read_back(codec: Codec, data: bytes, written: Session) -> Session:
    """Read what was written; that fails where the container came damaged with the session."""
    try:
        return codec.decode(data, limit=max(LIMIT, len(data))).session
    except DecodeError as error:
        text = f"what the session keeps of its file is damaged: {error.message}"
        entries = ((node.number, node.entry) for node in log(written))
        name = codec.name + FRAME
        frames = (at for at, note in entries if isinstance(note, Note) and note.name == name)
        raise DecodeError(error.code, text, entry=next(frames, None), field="data") from None


def convert(session: Session, to: str) -> Conversion:
    """Write a session in a format, and list what that doesn't hold.

    Args:
        session: from anywhere, for example `load(path).session`.
        to: a key of `ctxalgebra.codecs.CODECS`.

    Raises:
        InvalidArgument: `invalid-argument`, there is no such format; or as its `encode` says.
        DecodeError: what a codec keeps in the session's notes is damaged: the code says how, and
            `entry` which note; that of the whole container where its text is what is wrong.

    >>> from ctxalgebra import Session, label, record, user
    >>> conversion = convert(label(record(Session(), user("hi")), 0, "start"), "openai-chat")
    >>> conversion.data
    b'{"messages":[{"role":"user","content":"hi"}]}'
    >>> [(loss.code, loss.place) for loss in conversion.losses]
    [('label', 1)]
    """
    codec = CODECS.get(to)
    if codec is None:
        raise InvalidArgument("invalid-argument", f"no format {to!r}", field="to")
    if to == journal.NAME:
        return Conversion(codec.encode(session), ())
    found: list[Loss] = []
    written = session
    source, _ = taken(session)
    if source != to:
        rewriter = _Rewriter(session, to)
        written = rewriter.session
        found += [*rewriter.losses, *lines(session), *signed_texts(session)]
    if to not in _NOTED:
        found += notes(session)
    data = codec.encode(written)
    # A format may have nothing to say of a session without messages.
    back = _read_back(codec, data, written) if data else Session()
    found += losses(written, back)
    return Conversion(data, tuple(sorted(found, key=lambda one: one.place)))
