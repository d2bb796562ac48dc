"""The client of one cluster: connections, brokers, and every question that is not the stream of batches."""
