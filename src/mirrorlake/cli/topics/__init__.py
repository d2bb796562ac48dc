"""``mirrorlake topics``."""
