"""The verbs: stages that look at a session and append decisions, and how they compose."""
