"""Leases that run, as the driver sees them."""
