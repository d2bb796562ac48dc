"""Where this user's caches lie: compiled kernels, Kafka's jars, class archives. One place for all of them."""

import os
from collections.abc import Mapping
from pathlib import Path

from mirrorlake.errors import ConfigurationError

VARIABLE = "MIRRORLAKE_CACHE"


def user_cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Returns ``$MIRRORLAKE_CACHE``, else ``mirrorlake`` in ``$XDG_CACHE_HOME``, else in ``~/.cache``; absolute.

    An empty variable is as good as none, and so is a relative ``XDG_CACHE_HOME`` (XDG Base Directory
    Specification 0.8). Nothing is looked at or made: the folder may be missing, or not writable.

    Args:
        environ: the environment to look in; this process's own by default.

    Raises:
        ConfigurationError: ``MIRRORLAKE_CACHE`` is not absolute; processes would each have another folder.
        RuntimeError: this user has no home, as in containers that run a user without an entry in the user
            database.
    """
    environ = os.environ if environ is None else environ
    if own := environ.get(VARIABLE):
        if not Path(own).is_absolute():
            raise ConfigurationError(
                f"{VARIABLE} must be an absolute path, found {own!r}", hint="write the whole path, without ~"
            )
        return Path(own)
    shared = Path(environ.get("XDG_CACHE_HOME", ""))
    if shared.is_absolute():
        return shared / "mirrorlake"
    home = environ.get("HOME")
    return (Path(home) if home else Path.home()) / ".cache" / "mirrorlake"
