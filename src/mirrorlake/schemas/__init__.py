"""Schema registries: their clients, and how a subject of one becomes a subject of another.

`plan_subject` is the one place that decides; `apply_plans` does what it says and reads it back; `id_pairs` tells which
ids of the source mean which of the destination.
"""
