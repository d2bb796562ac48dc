"""An archive as a source: segments at rest become record batches at their own offsets."""
