"""Heartbeats that a service writes to the sources of mirrors that ask for them."""
