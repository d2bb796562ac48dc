"""The verbs of ``mirrorlake groups``."""
