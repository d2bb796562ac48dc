"""``run``: a service from the command line, until a signal, the end of a bounded run, or another owner."""

from collections.abc import Callable

from mirrorlake.config.resolved import Configuration
from mirrorlake.errors import ConfigurationError
from mirrorlake.freed_memory import rarely_collected
from mirrorlake.service.lifecycle.parts import RunOptions
from mirrorlake.service.service import Service


def run(config: Configuration, options: RunOptions, *, reread: Callable[[], Configuration] | None = None) -> int:
    """Runs the configured mirrors; returns the exit code. In the main thread, which hears the signals.

    Args:
        config: what to run.
        options: what the command line adds.
        reread: reads the configuration again; None where it cannot be.

    Returns:
        0 ended as asked, 1 failed, 3 ended as asked or by ``on-park: exit`` while partitions are parked, 4 another
        process has taken over.

    Raises:
        ConfigurationError: there is nothing to run, or the metrics address of a service is taken.
        JavaUnusableError: Spark cannot start.
    """
    if config.refusal_to_run:
        raise ConfigurationError(config.refusal_to_run, hint=f"add a mirror to {config.file}")
    service = Service(config, options, reread=reread)
    service.signals.install()
    try:
        with rarely_collected():
            return service.run()
    finally:
        service.signals.retire()
