"""From a configuration to a running service, and to its end."""
