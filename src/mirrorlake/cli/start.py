"""What every verb does first: set the logs up and load the configuration."""

import os
from pathlib import Path

from mirrorlake.config.environment import read_environment
from mirrorlake.config.loading import load_configuration
from mirrorlake.config.resolved import Configuration


def start_logs() -> None:
    """Sends logs to stderr as the environment says.

    Raises:
        ConfigurationErrors: an environment variable cannot be read.
    """
    from mirrorlake.service.sight.logs import configure_logs

    environment = read_environment(os.environ)
    configure_logs(level=environment.log_level.value, as_json=environment.log_format.value == "json")


def load(path: Path) -> Configuration:
    """Returns the configuration of a file, environment included.

    Raises:
        ConfigurationErrors: every problem of the file, each with its place.
    """
    return load_configuration(path)
