"""Schema registries, and how mirrors take schemas along."""
