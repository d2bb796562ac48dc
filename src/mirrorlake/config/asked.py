"""Names on a command line, checked against a configuration."""

from collections.abc import Collection

from mirrorlake.config.resolved import Configuration
from mirrorlake.errors import ConfigurationError


def check_asked(config: Configuration, *, mirrors: Collection[str] = (), destinations: Collection[str] = ()) -> None:
    """Checks that what is asked about is there and enabled: a name misspelt would ask for nothing.

    Args:
        config: the file's.
        mirrors: names of mirrors.
        destinations: labels of destinations, of whichever mirror.

    Raises:
        ConfigurationError: some are not; it names them all, and what there is.
    """
    names = {mirror.name for mirror in config.enabled_mirrors}
    labels = {each.label for mirror in config.enabled_mirrors for each in mirror.destinations}
    for what, asked, known in (("mirror", mirrors, names), ("destination", destinations, labels)):
        if unknown := sorted(set(asked) - known):
            raise ConfigurationError(
                f"there is no {what} {', '.join(unknown)} in {config.file} that is enabled",
                hint=f"there are {', '.join(sorted(known))}" if known else "there is none",
            )
