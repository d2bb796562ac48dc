"""What mirrors read."""
