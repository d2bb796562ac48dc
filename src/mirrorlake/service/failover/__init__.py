"""Failing over to copies and back: what is there, what is not, and what must be decided."""
