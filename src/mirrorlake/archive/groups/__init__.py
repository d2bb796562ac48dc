"""What consumer groups had committed, kept beside the records it is about."""
