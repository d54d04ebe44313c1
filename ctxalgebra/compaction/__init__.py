"""Reversible compaction of tool output: pure functions on texts, which know no session."""
