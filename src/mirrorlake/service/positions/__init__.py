"""Positions of all mirrors at all destinations: listed, written to files and read back, and moved where they can be."""
