"""The nouns: parts, messages, head, entries, view, session, and the gate."""
