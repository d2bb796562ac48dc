"""Consumer groups while a service runs: archived beside the records, and taken along to another cluster."""
