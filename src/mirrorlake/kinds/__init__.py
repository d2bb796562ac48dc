"""The driver's side of every kind of destination: what `run`, `status` and `plan` ask of one, and no more."""
