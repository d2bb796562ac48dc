"""Commands about the configuration itself."""
