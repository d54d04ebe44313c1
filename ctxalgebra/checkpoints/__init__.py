"""Checkpoints: names of entries, and what is handed over when the conversation travels."""

from ctxalgebra.checkpoints.handoff import (
    Handoff,
    HandoffDefect,
    LineCheck,
    build_handoff,
    check_handoff_lines,
    format_defect,
    handoff_text,
    read_handoff,
    ticket_name,
)
from ctxalgebra.checkpoints.names import (
    Names,
    is_name,
    is_reserved,
    name_conflict,
    read_names,
)

__all__ = [
    "Handoff",
    "HandoffDefect",
    "LineCheck",
    "Names",
    "build_handoff",
    "check_handoff_lines",
    "format_defect",
    "handoff_text",
    "is_name",
    "is_reserved",
    "name_conflict",
    "read_handoff",
    "read_names",
    "ticket_name",
]
