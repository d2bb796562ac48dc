"""What travels on a connection: frames, requests and answers that have a hot path, error codes."""
