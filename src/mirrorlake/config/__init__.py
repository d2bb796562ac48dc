"""The configuration: two forms of YAML in, one resolved and frozen value out.

``loading.load_configuration`` is the door; ``resolved`` holds what the rest of the program uses. This layer
does no network input or output and imports nothing heavier than pydantic and PyYAML.
"""
