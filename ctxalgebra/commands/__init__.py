"""Commands that answer questions about a recorded session, one module each."""
