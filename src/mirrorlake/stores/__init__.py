"""Object stores an archive can live in: one small interface, and its implementations.

The interface asks for little: a sorted listing, whole reads, and a create that only one writer can win.
"""
