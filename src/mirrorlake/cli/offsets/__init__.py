"""``mirrorlake offsets``."""
