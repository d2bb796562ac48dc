"""Keeping the ACLs of copies in step with those of their sources: what differs, what would be done, and doing it."""
