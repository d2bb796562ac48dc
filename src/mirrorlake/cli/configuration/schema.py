"""``mirrorlake config schema``: the JSON Schema of the configuration, for editors and checks."""

from mirrorlake.config.json_schema import configuration_schema_text


def config_schema() -> int:
    """Prints the schema on stdout and returns 0."""
    print(configuration_schema_text(), end="")
    return 0
