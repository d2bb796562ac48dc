"""The library's clients of one bucket, with their time limits, retries and credentials.

Whatever is left out of the settings is looked up by the library in the environment (``AWS_*``, ``GOOGLE_*``,
``AZURE_*``), then at the machine's metadata service; what is set here always wins.
"""

import ssl
import threading
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from obstore.store import AzureStore, GCSStore, S3Store

from mirrorlake.bucket_access import Addressing, ContentCheck
from mirrorlake.errors import ConfigurationError
from mirrorlake.stores.credentials import azure_credentials, s3_credentials
from mirrorlake.stores.settings import AzureSettings, BucketSettings, GcsSettings, S3Settings

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

BucketClient = S3Store | GCSStore | AzureStore

CONNECT_SECONDS_MAX = 5.0
READ_SECONDS_MAX = 30.0
READ_RETRIES_MAX = 3
READ_RETRY_SECONDS_MAX = 15.0

_WRITE_LIMITS = ((1 << 20, 15.0), (32 << 20, 60.0), (256 << 20, 300.0), (5 << 30, 1800.0))
"""Largest size in bytes, and seconds one put of it may take: about 1 MB/s, on a line that is slow but alive."""

PUT_BYTES_MAX = _WRITE_LIMITS[-1][0]
"""What one conditional put can hold on S3: five times the records of a segment (`SEGMENT_RAW_BYTES_MAX`).

A snapshot has no such bound.
"""


class BucketClients:
    """Makes clients when they are first used, and keeps them with their connections. For any thread."""

    def __init__(self, settings: BucketSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._writers: dict[float, BucketClient] = {}
        self._reader: BucketClient | None = None

    @property
    def reader(self) -> BucketClient:
        """Returns the client for what may be asked twice: reads, listings, deletes."""
        with self._lock:
            if self._reader is None:
                self._reader = _client(self._settings, seconds_max=READ_SECONDS_MAX, retries_max=READ_RETRIES_MAX)
            return self._reader

    def writer(self, size_bytes: int) -> BucketClient:
        """Returns the client for a create of ``size_bytes``. It never tries again by itself.

        A second try inside the library would hide that the first was perhaps done, and make "exists" mean two things.
        """
        assert size_bytes <= PUT_BYTES_MAX, f"{size_bytes} bytes are more than one put can hold"
        seconds = next(seconds for limit, seconds in _WRITE_LIMITS if size_bytes <= limit)
        with self._lock:
            if seconds not in self._writers:
                self._writers[seconds] = _client(self._settings, seconds_max=seconds, retries_max=0)
            return self._writers[seconds]


def _client(settings: BucketSettings, *, seconds_max: float, retries_max: int) -> BucketClient:
    options: ClientConfig = {
        "allow_http": _is_plain(settings),
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS_MAX),
        "timeout": timedelta(seconds=seconds_max),
        "user_agent": "mirrorlake",
    }
    retries: RetryConfig = {
        "max_retries": retries_max,
        "retry_timeout": timedelta(seconds=READ_RETRY_SECONDS_MAX),
        "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
    }
    if settings.ca_file is not None:
        options["root_certificate"] = _authorities(settings.ca_file, settings.where(""))
    match settings:
        case S3Settings():
            return _s3_client(settings, options, retries)
        case GcsSettings():
            return _gcs_client(settings, options, retries)
        case AzureSettings():
            return _azure_client(settings, options, retries)


def _s3_client(settings: S3Settings, options: "ClientConfig", retries: "RetryConfig") -> S3Store:
    endpoint = _s3_endpoint(settings)
    # A digest in the signature keeps content from being altered on the way; TLS does so already, for less.
    check = settings.content_check or (ContentCheck.SHA256 if _is_plain(settings) else ContentCheck.NONE)
    store = S3Store(
        settings.bucket,
        config={
            "region": settings.region,
            # Nothing of this is left to a variable of the environment.
            "virtual_hosted_style_request": settings.addressing is Addressing.VIRTUAL_HOSTED,
            "conditional_put": "etag",
            "unsigned_payload": check is not ContentCheck.SHA256,
            **({"checksum_algorithm": "CRC64NVME"} if check is ContentCheck.CRC64 else {}),
            # One DELETE needs no right and no feature that not every store has.
            "disable_bulk_delete": True,
            **({"endpoint": endpoint, "aws_endpoint_url_s3": endpoint} if endpoint else {}),
        },
        client_options=options,
        retry_config=retries,
        credential_provider=s3_credentials(settings),
    )
    assert isinstance(store, S3Store)
    return store


def _s3_endpoint(settings: S3Settings) -> str | None:
    """Returns the address as the library wants it: with the bucket in the host, where that is how it is addressed."""
    if settings.endpoint is None or settings.addressing is Addressing.PATH:
        return settings.endpoint
    scheme, _, host = settings.endpoint.partition("://")
    return f"{scheme}://{settings.bucket}.{host}"


def _is_plain(settings: BucketSettings) -> bool:
    return settings.endpoint is not None and settings.endpoint.startswith("http://")


def _authorities(file: Path, where: str) -> str:
    """Returns the text of a file of certificates, which are trusted beside the system's.

    Raises:
        ConfigurationError: it cannot be read, or holds none.
    """
    hint = "name a file of certificates in PEM form (-----BEGIN CERTIFICATE-----)"
    try:
        text = file.read_text(encoding="utf-8")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigurationError(f"{where}: ca-file {file} holds no certificate", hint=hint) from error
    except OSError as error:
        raise ConfigurationError(f"{where}: ca-file {file}: {error.strerror}", hint=hint) from error
    return text


def _gcs_client(settings: GcsSettings, options: "ClientConfig", retries: "RetryConfig") -> GCSStore:
    key = settings.service_account_key
    return GCSStore(
        settings.bucket,
        config={
            **({"service_account_key": key.reveal()} if key else {}),
            **({"base_url": settings.endpoint} if settings.endpoint else {}),
        },
        client_options=options,
        retry_config=retries,
    )


def _azure_client(settings: AzureSettings, options: "ClientConfig", retries: "RetryConfig") -> AzureStore:
    return AzureStore(
        settings.container,
        config={
            "account_name": settings.account,
            **({"endpoint": settings.endpoint} if settings.endpoint else {}),
        },
        client_options=options,
        retry_config=retries,
        credential_provider=azure_credentials(settings),
    )
