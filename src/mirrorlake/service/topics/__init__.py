"""Topics of destinations, kept in step while a service runs."""
