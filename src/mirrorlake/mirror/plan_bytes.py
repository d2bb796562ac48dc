"""Plans as bytes for the workers: pickled, but for secrets that a worker can read for itself."""

import copyreg
import io
import os
import pickle
from collections.abc import Callable
from typing import Any

from mirrorlake.errors import ConfigurationError
from mirrorlake.secret import Secret


def plan_bytes(plan: object) -> bytes:
    """Returns what ``pickle.loads`` makes an equal ``plan`` of, in a process with this one's environment.

    A secret that is the whole content of an environment variable is there by the variable's name, as one in a file is
    by its path. Others, put together of variables and text, are there themselves.
    """
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = {**copyreg.dispatch_table, Secret: _reduced}
    pickler.dump(plan)
    return buffer.getvalue()


def from_environment(variable: str) -> Secret:
    """Returns the secret that an environment variable of this process holds.

    Raises:
        ConfigurationError: it is not set here.
    """
    value = os.environ.get(variable)
    if value is None:
        raise ConfigurationError(
            f"the environment variable {variable}, which holds a secret, is not set where Spark's Python workers run",
            hint="set it there too",
        )
    return Secret(value, variable=variable)


def _reduced(secret: Secret) -> tuple[Callable[..., Any], tuple[Any, ...]] | str | tuple[Any, ...]:
    if secret.variable:
        return from_environment, (secret.variable,)
    return secret.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
