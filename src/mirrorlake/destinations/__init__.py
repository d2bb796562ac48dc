"""Destinations: where a mirror's records go. One interface, one contract suite over all implementations."""
