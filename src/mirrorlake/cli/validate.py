"""``mirrorlake validate``: parses and cross-checks a configuration, touches nothing else."""

import sys
from collections.abc import Mapping
from pathlib import Path

from mirrorlake.config.loading import load_configuration
from mirrorlake.config.problems import ConfigurationErrors


def validate(path: Path, environ: Mapping[str, str] | None = None) -> int:
    """Returns 0 after one line about the configuration on stdout, or 1 after one line per problem on stderr.

    Args:
        path: the configuration file.
        environ: the environment variables; None for those of this process.
    """
    try:
        configuration = load_configuration(path, environ)
    except ConfigurationErrors as errors:
        print(errors, file=sys.stderr)
        return 1
    types = ", ".join(configuration.destination_types)
    print(f"OK: {len(configuration.mirrors)} mirror(s), destination type = {types}")
    return 0
