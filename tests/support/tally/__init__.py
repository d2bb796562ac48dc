"""The toy of `docs/contributing.md`: a type of destination that counts records into files."""
