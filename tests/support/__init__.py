"""What several test folders share. Nothing in here replaces Kafka: it only writes to it and reads from it."""
