"""Where the credentials of a bucket come from, where the library's own look-up is not enough.

Named secrets win; then an AWS profile, read by AWS's own library with all that profiles can say (keys, a role to
assume, a web identity, single sign-on, a program to ask). Without either the library looks up the environment: keys,
web identity, container credentials, and at last the instance metadata service.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from mirrorlake.errors import ConfigurationError
from mirrorlake.secret import Secret
from mirrorlake.stores.settings import AzureSettings, S3Settings

if TYPE_CHECKING:
    from botocore.credentials import Credentials
    from obstore.store import AzureCredential, S3Credential

FRESH_SECONDS = 60.0
"""How long credentials from a file or a profile are used before they are read again: rotated ones are taken over."""


def s3_credentials(settings: S3Settings) -> "Callable[[], S3Credential] | None":
    """Returns what gives the credentials, or None where the library looks them up.

    Raises:
        ConfigurationError: half of a pair, or a profile that is not there.
    """
    if settings.access_key_id is not None or settings.secret_access_key is not None:
        if settings.access_key_id is None or settings.secret_access_key is None:
            raise ConfigurationError(f"{settings.where('')}: access key id and secret access key go together")
        return NamedS3Credentials(
            access_key_id=settings.access_key_id,
            secret_access_key=settings.secret_access_key,
            session_token=settings.session_token,
        )
    if profile := settings.profile or os.environ.get("AWS_PROFILE"):
        return ProfileCredentials(profile)
    return None


def azure_credentials(settings: AzureSettings) -> "Callable[[], AzureCredential] | None":
    """Returns what gives the credentials, or None where the library looks them up."""
    if settings.account_key is not None:
        return NamedAzureKey(settings.account_key)
    return NamedAzureToken(settings.sas_token) if settings.sas_token is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedS3Credentials:
    """Credentials from secrets of the configuration."""

    access_key_id: Secret
    secret_access_key: Secret
    session_token: Secret | None = None

    def __call__(self) -> "S3Credential":
        """Returns them as they are now."""
        return {
            "access_key_id": self.access_key_id.reveal(),
            "secret_access_key": self.secret_access_key.reveal(),
            "token": self.session_token.reveal() if self.session_token else None,
            "expires_at": _soon(),
        }


class ProfileCredentials:
    """Credentials of a profile in the AWS configuration files.

    Raises:
        ConfigurationError: there is no such profile, or it says nothing that gives credentials.
    """

    def __init__(self, profile: str) -> None:
        # Imported here: it takes a moment, and only those who use profiles need it.
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session

        self._profile = profile
        try:
            found = Session(profile=profile).get_credentials()
        except BotoCoreError as error:
            raise ConfigurationError(f"AWS profile {profile!r}: {error}", hint="correct `profile`") from error
        if found is None:
            raise ConfigurationError(f"AWS profile {profile!r} gives no credentials", hint="correct `profile`")
        self._credentials: Credentials = found

    def __call__(self) -> "S3Credential":
        """Returns them as they are now, renewed by AWS's library where they expire."""
        frozen = self._credentials.get_frozen_credentials()
        assert frozen.access_key is not None
        assert frozen.secret_key is not None
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": _soon(),
        }


@dataclass(frozen=True, slots=True)
class NamedAzureKey:
    """The account's key, a secret of the configuration."""

    key: Secret

    def __call__(self) -> "AzureCredential":
        """Returns it as it is now."""
        return {"access_key": self.key.reveal(), "expires_at": _soon()}


@dataclass(frozen=True, slots=True)
class NamedAzureToken:
    """A shared access signature, a secret of the configuration."""

    token: Secret

    def __call__(self) -> "AzureCredential":
        """Returns it as it is now."""
        return {"sas_token": self.token.reveal(), "expires_at": _soon()}


def _soon() -> datetime:
    return datetime.now(UTC) + timedelta(seconds=FRESH_SECONDS)
