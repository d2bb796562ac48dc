"""mirrorlake: exactly-once Kafka mirroring, from outside the broker.

The package is layered; imports go downwards only (``tests/unit/test_imports.py`` keeps it so). Importing
this module loads nothing heavy.
"""

__version__ = "0.1.0"
