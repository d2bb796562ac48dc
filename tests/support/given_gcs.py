"""A bucket of Google Cloud Storage, or of what speaks its XML protocol with conditions, given from outside."""

import os
import uuid
from pathlib import Path

from mirrorlake.secret import Secret
from mirrorlake.stores.settings import GcsSettings

BUCKET, ENDPOINT, KEY_FILE = (f"MIRRORLAKE_TEST_GCS_{name}" for name in ("BUCKET", "ENDPOINT", "KEY_FILE"))


class NoGcsGivenError(Exception):
    """Nothing in the environment names a bucket."""


class GivenGcs:
    """The bucket that the environment names, with an endpoint and a file of a service account's key where needed."""

    def __init__(self) -> None:
        self._bucket = os.environ.get(BUCKET, "")
        if not self._bucket:
            raise NoGcsGivenError(f"no bucket of Google Cloud Storage at hand: name one in {BUCKET}, {KEY_FILE}")

    def settings(self) -> GcsSettings:
        """Settings of a place in the bucket that nobody else uses; what tests leave there is its owner's to remove."""
        key_file = os.environ.get(KEY_FILE)
        return GcsSettings(
            bucket=self._bucket,
            prefix=uuid.uuid4().hex,
            endpoint=os.environ.get(ENDPOINT) or None,
            service_account_key=Secret(Path(key_file).read_text(encoding="utf-8")) if key_file else None,
        )
