"""The subjects of configured mirrors: which they are, what is done about them, and doing it."""
