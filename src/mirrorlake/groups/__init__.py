"""Consumer groups: reading what they have committed, translating it, and committing it elsewhere."""
