"""Stores in buckets: what may be said about them, and that their credentials never stand in the file."""

import pickle
from pathlib import Path

import pytest

from mirrorlake.bucket_access import ContentCheck
from mirrorlake.secret import Secret
from mirrorlake.stores.settings import AzureSettings, GcsSettings, S3Settings, StoreSettings
from unit.config.config_texts import archive, load, messages


def stores(text: str) -> str:
    return archive().replace("{type: filesystem, root: /lake}", text)


def settings(text: str, **environ: str) -> StoreSettings:
    (store,) = load(text, **environ).stores
    return store.settings


S3 = "type: s3, bucket: b, region: r"
NAMED = "access-key-id: '${ID}', secret-access-key: '${KEY}'"


def test_an_s3_store_with_all_that_can_be_said() -> None:
    text = stores(f"{{{S3}, prefix: /a/b/, endpoint: 'http://gateway:7070', {NAMED}, session-token: {{file: /t}}}}")
    store = settings(text, ID="an-id", KEY="a-key")
    assert isinstance(store, S3Settings)
    assert (store.bucket, store.prefix, store.region, store.endpoint) == ("b", "a/b", "r", "http://gateway:7070")
    assert store.access_key_id == Secret("an-id")
    assert store.secret_access_key == Secret("a-key")
    assert store.session_token == Secret(file=Path("/t"))


def test_how_a_bucket_is_talked_to() -> None:
    store = settings(stores(f"{{{S3}, ca-file: /etc/own-ca.pem, addressing: virtual-hosted, content-check: crc64}}"))
    assert isinstance(store, S3Settings)
    assert (store.ca_file, store.addressing.value) == (Path("/etc/own-ca.pem"), "virtual-hosted")
    assert store.content_check is ContentCheck.CRC64
    plain = settings(stores(f"{{{S3}}}"))
    assert isinstance(plain, S3Settings)
    assert (plain.ca_file, plain.addressing.value, plain.content_check) == (None, "path", None)
    for other in ("type: gcs, bucket: b", "type: azure, account: a, container: c"):
        found = settings(stores(f"{{{other}, endpoint: 'https://gateway', ca-file: /etc/own-ca.pem}}"))
        assert isinstance(found, GcsSettings | AzureSettings)
        assert found.ca_file == Path("/etc/own-ca.pem")


def test_a_profile_is_named() -> None:
    store = settings(stores(f"{{{S3}, profile: archive}}"))
    assert isinstance(store, S3Settings)
    assert (store.profile, store.access_key_id) == ("archive", None)


def test_gcs_and_azure_stores() -> None:
    gcs = settings(stores("{type: gcs, bucket: b, service-account-key: {file: /key.json}}"))
    assert isinstance(gcs, GcsSettings)
    assert gcs.service_account_key == Secret(file=Path("/key.json"))
    azure = settings(stores("{type: azure, account: a, container: c, account-key: '${KEY}'}"), KEY="k")
    assert isinstance(azure, AzureSettings)
    assert (azure.account, azure.container, azure.account_key) == ("a", "c", Secret("k"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{S3}, access-key-id: AKIA, secret-access-key: '${{KEY}}'", "access-key-id: a secret may not be"),
        (f"{S3}, access-key-id: '${{ID}}', secret-access-key: wJalr", "secret-access-key: a secret may not be"),
        ("type: azure, account: a, container: c, account-key: wJalr", "account-key: a secret may not be"),
        ("type: gcs, bucket: b, service-account-key: wJalr", "service-account-key: a secret may not be"),
        (f"{S3}, access-key-id: '${{ID}}'", "secret-access-key: is required"),
        (f"{S3}, secret-access-key: '${{KEY}}'", "access-key-id: is required"),
        (f"{S3}, ca-file: own-ca.pem", "ca-file: `own-ca.pem` is a relative path"),
        (f"{S3}, ca-file: /ca.pem, endpoint: 'http://gateway'", "ca-file: has no meaning over `http://`"),
        ("type: gcs, bucket: b, ca-file: /ca.pem, endpoint: 'http://gateway'", "ca-file: has no meaning over"),
        (f"{S3}, addressing: host", "addressing: "),
        (f"{S3}, content-check: md5", "content-check: "),
        (f"{S3}, session-token: '${{KEY}}'", "session-token: has no meaning without"),
        (f"{S3}, profile: p, {NAMED}", "profile: has no meaning beside"),
        (f"{S3}, access-key-id: {{file: relative}}, secret-access-key: '${{KEY}}'", "must be an absolute path"),
        (f"{S3}, access-key-id: '${{EMPTY}}', secret-access-key: '${{KEY}}'", "the value of ${EMPTY} is empty"),
        (
            "type: azure, account: a, container: c, account-key: '${KEY}', sas-token: '${KEY}'",
            "sas-token: has no meaning beside",
        ),
    ],
)
def test_what_is_wrong_is_said_without_the_secret(text: str, expected: str) -> None:
    lines = messages(stores(f"{{{text}}}"), ID="an-id", KEY="a-key", EMPTY="")
    assert any(expected in line for line in lines), lines
    assert not any(secret in line for line in lines for secret in ("wJalr", "AKIA", "a-key"))


def test_a_store_is_printed_without_its_secrets_and_travels_with_them() -> None:
    store = settings(stores(f"{{{S3}, {NAMED}}}"), ID="an-id", KEY="a-key")
    assert "a-key" not in repr(store)
    assert "an-id" not in repr(store)
    assert pickle.loads(pickle.dumps(store)) == store
