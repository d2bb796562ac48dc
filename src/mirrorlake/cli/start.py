"""What every verb does: set the logs up, load the configuration, and run what asks clusters to its end."""

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from mirrorlake.config.environment import read_environment
from mirrorlake.config.loading import load_configuration
from mirrorlake.config.resolved import Configuration
from mirrorlake.freed_memory import rarely_collected
from mirrorlake.pipeline.cluster.submission import submitted_settings

T = TypeVar("T")


def start_logs() -> None:
    """Sends logs to stderr as the environment says.

    Raises:
        ConfigurationErrors: an environment variable cannot be read.
    """
    from mirrorlake.service.sight.logs import configure_logs

    environment = read_environment(os.environ)
    configure_logs(level=environment.log_level.value, as_json=environment.log_format.value == "json")


def load(path: Path) -> Configuration:
    """Returns the configuration of a file, environment and settings of `spark-submit` included.

    Raises:
        ConfigurationErrors: every problem of the file, each with its place.
    """
    return load_configuration(path, submitted=submitted_settings())


def ask(question: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in a loop of its own and returns its result.

    As ``asyncio.run``, and the task has no result of its own: Python writes that out as text when it puts its handler
    of SIGINT back, and throws the text away (``signal._int_to_enum`` in 3.11). With thousands of partitions in it that
    took longer than asking for them.
    """
    found: list[T] = []

    async def keep() -> None:
        found.append(await question)

    # What is asked for lives to the end. Looking through all of it for cycles, seven hundred objects after another,
    # took a fifth of the time where there are fifty thousand rows.
    with rarely_collected():
        asyncio.run(keep())
    return found[0]
