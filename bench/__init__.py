"""Side by side with the peers, on real brokers: ``python -m bench --help``."""
