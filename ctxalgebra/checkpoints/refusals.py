"""What is refused, as a value with a stable code. Source: travel, sections 9, 12 and 13."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attrs import field, frozen

from ctxalgebra.checkpoints.handoff import HandoffDefect
from ctxalgebra.errors import InvalidArgument, escaped
from ctxalgebra.model.checks import check_text

__all__ = ["REFUSALS", "Refusal"]

REFUSALS: Mapping[str, str] = MappingProxyType(
    {
        # either
        "aborted": "the caller has given it up",
        "empty-session": "the path has no request that could leave",
        "invalid-params": "arguments are missing, of the wrong type or unknown",
        "no-active-leaf": "no entry is the current one",
        "target-not-found": "no entry has this number or label",
        # checkpoints
        "duplicate-name": "another entry has the name",
        "invalid-name": "a name has letters, digits, dots, underscores and hyphens of ASCII",
        "label-displaces-existing": "the entry has another label",
        "no-protocol-complete-checkpoint-target": "calls are open all the way back",
        "reserved-name": "the name is `root`, in some letter case",
        # travel
        "already-at-target": "the target is the current entry",
        "backup-displaces-existing-label": "the branch that is left has another label",
        "duplicate-backup-name": "another entry has the name of the return ticket",
        "invalid-handoff": "slots of the handoff are missing, empty or of the wrong type",
        "mixed-tool-batch": "the call is not alone in its message",
        "no-protocol-complete-backup-target": "the branch that is left has no request to name",
        "reserved-backup-name": "the name of the return ticket is `root`, in some letter case",
        "zero-distance-travel": "it would take nothing away but calls of the library's own tools",
    }
)
"""All codes, with what they mean. They are values, not errors: a model is to read them."""


@frozen
class Refusal:
    """Say why something was not done; nothing was recorded.

    Args:
        code: one of `REFUSALS`.
        text: one sentence for whoever asked.
        defects: what is wrong with a handoff, all of it.

    >>> str(Refusal("already-at-target", "go on from here"))
    'already-at-target: go on from here'
    """

    code: str
    text: str
    defects: tuple[HandoffDefect, ...] = field(default=())

    def __attrs_post_init__(self) -> None:
        check_text(self.text, "text")
        if self.code not in REFUSALS:
            text = f"no refusal has the code {self.code!r}"
            raise InvalidArgument("invalid-argument", text, field="code")

    def __str__(self) -> str:
        """Render as `code: text`, one printable line."""
        return escaped(f"{self.code}: {self.text}")
