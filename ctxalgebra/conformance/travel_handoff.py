"""The part of `travel` about names, texts of entries, and handoffs.

The rules stand in `ctxalgebra.checkpoints` and, for entries of the host, in
`ctxalgebra.compat.travel_*`. Handoffs carry the original's marker here.
"""

from __future__ import annotations

from typing import Any

from attrs import asdict

from ctxalgebra.checkpoints.handoff import (
    Handoff,
    HandoffDefect,
    build_handoff,
    check_handoff_lines,
    format_defect,
    handoff_text,
    read_handoff,
    read_slot,
    ticket_name,
    wire_defects,
)
from ctxalgebra.checkpoints.names import is_reserved
from ctxalgebra.checkpoints.shown import neutral
from ctxalgebra.compat import travel_entries, travel_labels
from ctxalgebra.compat.host_entries import LAST
from ctxalgebra.compat.travel_packet import MARKER
from ctxalgebra.conformance.operations import collect

__all__ = ["OPERATIONS"]

Object = dict[str, Any]


def is_reserved_target_name(*, name: str) -> Any:
    """Say whether a name stands for the root."""
    return is_reserved(name)


def sanitize_terminal_text(*, text: str) -> Any:
    """Take control characters out."""
    return neutral(text)


def optional_string(*, value: Any = None) -> Any:
    """Take a parameter that may be absent."""
    return travel_entries.optional_text(value)


def build_label_maps(*, entries: list[Object], **_: Any) -> Any:
    """Fold the labels of a file."""
    known = travel_labels.read_labels(entries)
    return {
        "labelToEntryId": [list(pair) for pair in known.targets.items()],
        "entryToLabel": [list(pair) for pair in known.names.items()],
    }


def seed_build_label_maps(*, entries: list[Object], **_: Any) -> Any:
    """Fold the labels of a file, several for an entry."""
    targets, names = travel_labels.read_aliases(entries)
    return {
        "labelToEntryId": [list(pair) for pair in targets.items()],
        "entryToLabels": [list(pair) for pair in names.items()],
    }


def resolve_target_id(*, entries: list[Object], target: str, leaf_id: str | None = LAST) -> Any:
    """Say which entry a target stands for."""
    found = travel_labels.resolve(entries, leaf_id, target)
    return {"id": found.id, "fromOffPath": found.off_path}


def extract_text_from_content(*, content: Any = None) -> Any:
    """Join the texts of a content."""
    return travel_entries.content_text(content)


def extract_text_from_content_bounded(*, content: Any = None, max_chars: int) -> Any:
    """Join the texts of a content, up to a length."""
    found = travel_entries.bounded_text(content, max_chars)
    return {
        "text": found.text,
        "sourceCharsConsumed": found.consumed,
        "truncated": found.truncated,
    }


def get_meaningful_skip_reason(*, entry: Object) -> Any:
    """Say why an entry is no good save point."""
    return travel_entries.skip_reason(entry)


def get_message_role_label(*, entry: Object) -> Any:
    """Name the role of an entry."""
    return travel_entries.role_label(entry)


def describe_entry_snippet(*, entry: Object, max_length: int) -> Any:
    """Give one line about an entry."""
    return travel_entries.snippet(entry, max_length)


def seed_find_last_meaningful_entry(*, branch: list[Object]) -> Any:
    """Look for the newest entry that is a good save point."""
    found = travel_entries.last_meaningful(branch)
    skipped: list[Object] = []
    for skip in found.skipped:
        role = {} if skip.role is None else {"role": skip.role}
        skipped.append({"id": skip.entry, "reason": skip.reason, **role})
    if found.entry is None:
        return {"entryId": None, "skipped": skipped}
    return {
        "entryId": found.entry.get("id"),
        "role": travel_entries.role_label(found.entry),
        "snippet": travel_entries.snippet(found.entry),
        "skipped": skipped,
    }


# Handoffs


def _defect(defect: HandoffDefect) -> Object:
    return {name: value for name, value in asdict(defect).items() if value}


def _refused(defects: tuple[HandoffDefect, ...]) -> Object:
    return {"ok": False, "defects": [_defect(defect) for defect in defects]}


def build_canonical_handoff(*, handoff: Any = None, raw_archive_alias: str | None = None) -> Any:
    """Build a handoff and its text."""
    built = build_handoff(handoff, raw_archive=raw_archive_alias)
    if not isinstance(built, Handoff):
        return _refused(built)
    text = handoff_text(built, marker=MARKER)
    return {"ok": True, "value": {"fields": asdict(built), "text": text}}


def normalize_handoff_wire(*, handoff: Any = None) -> Any:
    """Check the types of a handoff as it was received."""
    members, defects = wire_defects(handoff)
    return _refused(defects) if defects else {"ok": True, "value": members}


def format_handoff_defect(*, defect: Object) -> Any:
    """Write a defect as text."""
    known = ("field", "reason", "expected", "got", "name")
    told: Object = {name: str(defect.get(name, "")) for name in known}
    return format_defect(HandoffDefect(**told))


def derive_return_ticket_name(*, goal: str, taken: list[str]) -> Any:
    """Name a branch after its goal."""
    return ticket_name(goal, taken)


def is_canonical_acm_handoff(*, summary: str) -> Any:
    """Say whether a text is the text of a handoff."""
    return read_handoff(summary, marker=MARKER) is not None


def canonical_field(*, summary: str, label: str, next_label: str | None = None) -> Any:
    """Read one field back."""
    return read_slot(summary, label, next_label or "") or ""


def seed_validate_handoff_structure(*, summary: str) -> Any:
    """Check a handoff line by line."""
    found = check_handoff_lines(summary)
    if found.ok:
        return {"ok": True}
    return {
        "ok": False,
        "missing": list(found.missing),
        "empty": list(found.empty),
        "duplicate": list(found.duplicate),
        "outOfOrder": found.out_of_order,
    }


OPERATIONS = collect(
    "travel",
    is_reserved_target_name,
    sanitize_terminal_text,
    optional_string,
    build_label_maps,
    seed_build_label_maps,
    resolve_target_id,
    extract_text_from_content,
    extract_text_from_content_bounded,
    get_meaningful_skip_reason,
    get_message_role_label,
    describe_entry_snippet,
    seed_find_last_meaningful_entry,
    build_canonical_handoff,
    normalize_handoff_wire,
    format_handoff_defect,
    derive_return_ticket_name,
    is_canonical_acm_handoff,
    canonical_field,
    seed_validate_handoff_structure,
)
