"""How a bucket is talked to: the choices that are configured, and that its client carries out."""

from enum import StrEnum


class Addressing(StrEnum):
    """Where a request names the bucket."""

    PATH = "path"
    """In the path: ``https://store/bucket/key``. Works with every store."""
    VIRTUAL_HOSTED = "virtual-hosted"
    """In the host: ``https://bucket.store/key``. Some stores serve nothing else."""


class ContentCheck(StrEnum):
    """By what a store tells content that was changed on its way from what was sent."""

    SHA256 = "sha256"
    """A digest that is part of the request's signature: nobody can change the content unseen."""
    CRC64 = "crc64"
    """A checksum beside the signature (``x-amz-checksum-crc64nvme``): accidents are seen, a forger is not."""
    NONE = "none"
    """Nothing of ours: TLS sees every change, plain HTTP hardly any."""
