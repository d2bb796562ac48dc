"""``mirrorlake schemas``."""
