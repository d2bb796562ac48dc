"""Where mirrors read from: one protocol (`source.py`), and a room for every kind of source."""
