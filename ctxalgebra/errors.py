"""Errors: one root, a few branches by blame, a closed list of stable codes.

Values are immutable, so after any error the session that was passed in is unchanged and usable.
Codes are part of the interface; messages are for people and may change.
"""

from __future__ import annotations

__all__ = [
    "CODES",
    "CtxError",
    "DecodeError",
    "IllegalDecision",
    "InvalidArgument",
    "LawViolation",
    "ProtocolViolation",
    "StoreError",
    "escaped",
]

CODES: dict[str, str] = {
    # events that are not a legal conversation
    "duplicate-call": "an assistant message holds the same call id twice",
    "duplicate-result": "a call of the open exchange is answered a second time",
    "empty-request": "there is no message to send",
    "in-flight": "a request is open: wait for its reply",
    "incomplete-results": "an older exchange of a list lacks results",
    "mismatched-result": "a tool result answers no call of the message in front of it",
    "missing-id": "a call has no id",
    "no-message": "a completed reply has no message",
    "no-request": "there is no open request that a reply could close",
    "open-call": "calls are open: record their results or abandon them",
    "orphan-result": "a tool result answers no open call",
    "unknown-ask": "an answer names no pending ask",
    "unknown-entry": "an entry number that is not in the journal",
    "unknown-kind": "an entry, part or line of a kind that does not exist",
    "unknown-request": "a usage report names no request",
    "wrong-role": "a message of this role can't stand here",
    # decisions that ask for the impossible
    "bad-keep": "a kept message is not a shown user message in front of the cut",
    "bad-notice": "a notice is not a user message with text",
    "changed-calls": "a replacement loses, adds, renames or reorders calls",
    "changed-opaque": "a replacement touches opaque or thinking parts",
    "changed-role": "a replacement has another role, call id or error flag",
    "changed-type": "a replacement changes the JSON type of a call's arguments",
    "empty-replacement": "a replacement is empty",
    "frontier-retreat": "the frontier moves only forward",
    "frozen-notice": "a notice is frozen until the frontier moves",
    "no-change": "the decision would change nothing",
    "not-shown": "the message is not shown on this path",
    "open-loop": "the break would take the leading thinking of an open tool loop",
    "signed-call": "a signed call can't be rewritten",
    "silent-break": "what was sent would change without a declared break",
    "split-exchange": "a call and its result would be parted",
    "unread": "the message was not read by the model yet",
    # what the selector of the paging extension refuses
    "active-request-too-large": "the active request is over the budget by itself",
    "invalid-message-structure": "the messages are no conversation",
    "invalid-model-context": "the window of the model is no positive number",
    "invalid-token-budget": "the budget is no positive integer",
    "invalid-trim-target": "the target of a cut is no positive integer",
    "resident-input-too-large": "what always stands in a request is over the budget",
    # values and arguments
    "endless-asks": "a stage asks something new in each round",
    "invalid-argument": "an argument is outside its range",
    "lone-surrogate": "a text holds a surrogate code point without its pair",
    "not-deferrable": "the API can't load a tool behind the head",
    "wrong-type": "a value has another type than its field",
    # skills
    "manual-skill": "the skill is not for a model",
    "outside-scope": "the skill lies outside the scope, and no search showed it",
    # history
    "reply-too-long": "the answer of a tool would be longer than its limit",
    "unknown-anchor": "no item of the history stands at the anchor",
    "unknown-item": "the history holds no such item, result or part",
    "withheld-output": "the output is not shown again",
    # bytes at the edge
    "cyclic-parent": "the parents of an entry run in a circle",
    "duplicate-id": "two entries have the same id",
    "empty-file": "the file holds nothing",
    "extra-field": "a field that does not exist",
    "format-undetected": "the file is of no known format",
    "invalid-json": "a text that is not JSON",
    "invalid-number": "a number that JSON does not know (NaN, Infinity) or that is out of range",
    "invalid-utf8": "bytes that are not UTF-8",
    "invalid-yaml": "a text that is not YAML, or more than JSON can say",
    "late-parent": "an entry stands in front of its parent",
    "line-too-long": "a line is longer than the limit",
    "missing-extra": "an optional dependency is not installed",
    "missing-field": "a required field is absent",
    "missing-header": "the first line is no header of the format",
    "too-deep": "a JSON value is nested deeper than the limit",
    "unknown-parent": "an entry's parent is not in the file",
    "unreadable": "the file can't be read",
    "unwritable": "the output can't be written",
    # the file of a session
    "changed-file": "somebody else wrote to the file",
    "locked": "the file is open in another store",
    "not-grown": "the session was not grown from the one in the file",
    "store-closed": "the store is closed",
    # laws
    "law-broken": "a law does not hold",
}


def escaped(text: str) -> str:
    r"""Escape what is not printable, as Python does in strings.

    >>> escaped("a\x1b[31mb\u202e")
    'a\\x1b[31mb\\u202e'
    """
    return "".join(c if c.isprintable() else _escape(ord(c)) for c in text)


def _escape(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class CtxError(Exception):
    """The root of all errors of this library; raised only through its branches.

    Attributes:
        code: one of `CODES`, stable.
        message: one sentence for a person.
        file, line, entry, field: the place, as far as it is known (line counts from 1, entry is
            an entry number or the id that a file gave it).
    """

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        file: str | None = None,
        line: int | None = None,
        entry: int | str | None = None,
        field: str | None = None,
    ) -> None:
        self.code = code
        self.message = message or CODES[code]
        self.file = file
        self.line = line
        self.entry = entry
        self.field = field
        super().__init__(code, self.message)

    def __str__(self) -> str:
        """Render as `code: message (file, line, entry, field)`, one printable line."""
        place = [
            f"{name} {value}"
            for name in ("file", "line", "entry", "field")
            if (value := getattr(self, name)) is not None
        ]
        text = f"{self.code}: {self.message}" + (f" ({', '.join(place)})" if place else "")
        return escaped(text)


class ProtocolViolation(CtxError):
    """The event that was offered is not a legal next step of a conversation."""


class IllegalDecision(CtxError):
    """A stage or a caller asked for a decision that the gate refuses."""


class InvalidArgument(CtxError, ValueError):
    """A value that was passed in has the wrong type or lies outside its range."""


class DecodeError(CtxError, ValueError):
    """Bytes at the edge are not what the format says; nothing was built."""


class StoreError(CtxError):
    """The file of a session can't be written; nothing was."""


class LawViolation(CtxError, AssertionError):
    """A law does not hold: a bug in the stage under test, or in this library.

    Attributes:
        law: the law's name.
        before, after: the values that show it.
    """

    def __init__(self, law: str, message: str, before: object = None, after: object = None) -> None:
        super().__init__("law-broken", f"{law}: {message}")
        self.law = law
        self.before = before
        self.after = after
