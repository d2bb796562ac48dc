"""Which store an archive lives in, as a value: frozen, hashable, and fit to travel into a Spark task."""

from dataclasses import dataclass
from pathlib import Path

from mirrorlake.bucket_access import Addressing, ContentCheck
from mirrorlake.secret import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesystemSettings:
    """A folder, absolute. ``makes_root`` says that one that is missing will be made, and holds nothing until then."""

    root: Path
    makes_root: bool = False

    def where(self, name: str) -> str:
        """Returns how people write the place of ``name`` in this store."""
        return str(self.root / name)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Settings:
    """A bucket of S3, or of a store that speaks its protocol.

    Attributes:
        bucket: the bucket; it must exist.
        prefix: what all keys begin with, without slashes at its ends; empty for none.
        region: the bucket's.
        endpoint: address of the store, without the bucket; None is AWS. Over ``http://`` nothing is encrypted.
        ca_file: PEM certificates of authorities to trust beside the system's.
        addressing: where requests name the bucket.
        content_check: None is what the connection needs: ``sha256`` over plain HTTP, else ``none``.
        profile: a profile of the AWS configuration files; None leaves it to ``AWS_PROFILE``.
        access_key_id: named credentials, with the next; None leaves them to the environment.
        secret_access_key: see above.
        session_token: for temporary credentials.
    """

    bucket: str
    prefix: str = ""
    region: str
    endpoint: str | None = None
    ca_file: Path | None = None
    addressing: Addressing = Addressing.PATH
    content_check: ContentCheck | None = None
    profile: str | None = None
    access_key_id: Secret | None = None
    secret_access_key: Secret | None = None
    session_token: Secret | None = None

    def where(self, name: str) -> str:
        """Returns how people write the place of ``name`` in this store."""
        return _where(f"s3://{self.bucket}", self.prefix, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class GcsSettings:
    """A bucket of Google Cloud Storage; ``service_account_key`` None leaves credentials to the environment.

    ``ca_file`` holds PEM certificates of authorities to trust beside the system's.
    """

    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    ca_file: Path | None = None
    service_account_key: Secret | None = None

    def where(self, name: str) -> str:
        """Returns how people write the place of ``name`` in this store."""
        return _where(f"gs://{self.bucket}", self.prefix, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureSettings:
    """A container of Azure Blob Storage; without key and token credentials are left to the environment.

    ``ca_file`` holds PEM certificates of authorities to trust beside the system's.
    """

    account: str
    container: str
    prefix: str = ""
    endpoint: str | None = None
    ca_file: Path | None = None
    account_key: Secret | None = None
    sas_token: Secret | None = None

    def where(self, name: str) -> str:
        """Returns how people write the place of ``name`` in this store."""
        return _where(f"azure://{self.account}/{self.container}", self.prefix, name)


BucketSettings = S3Settings | GcsSettings | AzureSettings
StoreSettings = FilesystemSettings | BucketSettings


def _where(root: str, prefix: str, name: str) -> str:
    return "/".join(part for part in (root, prefix, name) if part)
