"""Real servers for the demo, the tests and the benchmarks: Kafka as subprocesses, no containers."""
