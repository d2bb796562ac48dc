"""The long hunt for rare failures: ``make soak``, or ``python -m soak --help``."""
