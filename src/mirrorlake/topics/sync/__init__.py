"""Keeping destination topics in step with their sources: what differs, what would be done, and doing it."""
