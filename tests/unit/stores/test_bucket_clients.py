"""How buckets are reached: what the environment may decide, and where credentials come from."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mirrorlake.bucket_access import Addressing, ContentCheck
from mirrorlake.errors import ConfigurationError
from mirrorlake.secret import Secret
from mirrorlake.stores.bucket_clients import PUT_BYTES_MAX, BucketClients
from mirrorlake.stores.credentials import azure_credentials, s3_credentials
from mirrorlake.stores.settings import AzureSettings, S3Settings


@pytest.fixture(autouse=True)
def no_aws_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def settings(**more: object) -> S3Settings:
    return S3Settings(bucket="lake", region="eu-central-1", **more)  # type: ignore[arg-type]


def shown(found: S3Settings) -> dict[str, object]:
    return dict(BucketClients(found).reader.config)


def test_the_condition_of_a_create_cannot_be_switched_off_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    monkeypatch.setenv("AWS_UNSIGNED_PAYLOAD", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://elsewhere:1")
    found = shown(settings(endpoint="http://gateway:7070"))
    assert found["conditional_put"] == "etag"
    assert found["unsigned_payload"] == "false"
    assert found["endpoint_url_s3"] == "http://gateway:7070"


@pytest.mark.parametrize(
    ("endpoint", "is_unsigned"), [(None, "true"), ("https://gateway", "true"), ("http://gateway", "false")]
)
def test_content_is_signed_where_tls_does_not_protect_it(endpoint: str | None, is_unsigned: str) -> None:
    found = shown(settings(endpoint=endpoint))
    assert found["unsigned_payload"] == is_unsigned
    assert "checksum_algorithm" not in found


@pytest.mark.parametrize("endpoint", [None, "http://gateway"])
@pytest.mark.parametrize(
    ("check", "is_unsigned", "checksum"),
    [
        (ContentCheck.SHA256, "false", None),
        (ContentCheck.CRC64, "true", "CRC64NVME"),
        (ContentCheck.NONE, "true", None),
    ],
)
def test_how_content_is_checked_can_be_chosen(
    endpoint: str | None, check: ContentCheck, is_unsigned: str, checksum: str | None
) -> None:
    found = shown(settings(endpoint=endpoint, content_check=check))
    assert (found["unsigned_payload"], found.get("checksum_algorithm")) == (is_unsigned, checksum)


@pytest.mark.parametrize(
    ("addressing", "is_in_host", "endpoint"),
    [
        (Addressing.PATH, "false", "https://gateway:7070"),
        (Addressing.VIRTUAL_HOSTED, "true", "https://lake.gateway:7070"),
    ],
)
def test_a_bucket_named_in_the_host_goes_before_it(addressing: Addressing, is_in_host: str, endpoint: str) -> None:
    found = shown(settings(endpoint="https://gateway:7070", addressing=addressing))
    assert found["virtual_hosted_style_request"] == is_in_host
    assert found["endpoint_url_s3"] == endpoint


def test_a_put_has_a_time_limit_for_its_size_and_one_client_for_each() -> None:
    clients = BucketClients(settings())
    assert clients.writer(0) is clients.writer(1 << 20)
    assert clients.writer(1 << 20) is not clients.writer((1 << 20) + 1)
    assert clients.writer(1 << 30) is clients.writer(PUT_BYTES_MAX)
    with pytest.raises(AssertionError):
        clients.writer(PUT_BYTES_MAX + 1)


def test_without_a_name_or_a_profile_the_library_looks_credentials_up() -> None:
    assert s3_credentials(settings()) is None


def test_named_credentials_are_read_again_and_expire_soon(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("first\n")
    give = s3_credentials(settings(access_key_id=Secret("an-id"), secret_access_key=Secret(file=key)))
    assert give is not None
    found = give()
    assert (found["access_key_id"], found["secret_access_key"], found["token"]) == ("an-id", "first", None)
    assert found["expires_at"] is not None
    assert found["expires_at"] < datetime.now(UTC) + timedelta(minutes=2)
    key.write_text("second\n")
    assert give()["secret_access_key"] == "second"


def test_half_a_pair_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="go together"):
        s3_credentials(settings(access_key_id=Secret("an-id")))


@pytest.mark.parametrize("is_named", [True, False])
def test_a_profile_is_read_from_the_files_of_aws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_named: bool
) -> None:
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id=other\naws_secret_access_key=other\n"
        "[archive]\naws_access_key_id=an-id\naws_secret_access_key=a-key\naws_session_token=a-token\n"
    )
    if not is_named:
        monkeypatch.setenv("AWS_PROFILE", "archive")
    give = s3_credentials(settings(profile="archive" if is_named else None))
    assert give is not None
    found = give()
    assert (found["access_key_id"], found["secret_access_key"], found["token"]) == ("an-id", "a-key", "a-token")


def test_a_profile_that_asks_a_program_is_served(tmp_path: Path) -> None:
    program = tmp_path / "give-credentials"
    program.write_text('#!/bin/sh\necho \'{"Version": 1, "AccessKeyId": "an-id", "SecretAccessKey": "a-key"}\'\n')
    program.chmod(0o755)
    (tmp_path / "config").write_text(f"[profile asking]\ncredential_process = {program}\n")
    give = s3_credentials(settings(profile="asking"))
    assert give is not None
    assert give()["access_key_id"] == "an-id"


def test_a_profile_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="'nobody'"):
        s3_credentials(settings(profile="nobody"))


def test_azure_takes_a_key_or_a_signature() -> None:
    key = azure_credentials(AzureSettings(account="a", container="c", account_key=Secret("k")))
    token = azure_credentials(AzureSettings(account="a", container="c", sas_token=Secret("sig=x")))
    assert key is not None
    assert token is not None
    assert key()["access_key"] == "k"  # type: ignore[typeddict-item]
    assert token()["sas_token"] == "sig=x"  # type: ignore[typeddict-item]
    assert azure_credentials(AzureSettings(account="a", container="c")) is None
