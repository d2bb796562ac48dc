"""Imported last by the process that others are forked from: what is there by then no collection of theirs looks at.

A collection would walk 300 MB that are never garbage, and have each page of them copied for the process.
"""

import gc

gc.collect()
gc.freeze()
