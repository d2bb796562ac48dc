"""Record batches and their records: walking, decoding, encoding, hashing, compiled loops."""
