"""`plan`: what `run` would do now, read and never changed."""
