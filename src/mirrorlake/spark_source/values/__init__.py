"""What keys and values say: decoded by archived schemas, for queries, and as JSON has them."""
