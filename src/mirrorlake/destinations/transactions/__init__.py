"""What writes as a transactional producer: ownership, gap filling, the transactions of a shard."""
