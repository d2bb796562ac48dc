"""Who is at the other end: TLS, SASL and where tokens come from."""
