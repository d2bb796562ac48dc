"""Dead letters, as both kinds of Kafka destination write them."""
