"""Archives: segments of one range each, published by create-if-absent."""
