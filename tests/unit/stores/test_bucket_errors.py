"""What the library's texts are taken for; each text is one that a store was seen to give."""

import pytest

from mirrorlake.errors import StoreUnusableError
from mirrorlake.stores.bucket_errors import answer_of, bucket_error
from mirrorlake.stores.object_store import ObjectMissingError


def text(status: str, code: str) -> str:
    return (
        "Object at location p/a not found: Error performing DELETE http://127.0.0.1/lake/p%2Fa in 155.844µs - Server "
        f"returned non-2xx status code: {status}: <Error><Code>{code}</Code><Message>Not Found</Message></Error>"
        "\n\nDebug source:\nNotFound {}"
    )


@pytest.mark.parametrize("code", ["NoSuchKey", "BlobNotFound", "404"])
def test_a_missing_object_is_missing_also_where_its_code_only_repeats_the_status(code: str) -> None:
    error = bucket_error(FileNotFoundError(text("404 Not Found", code)), "gs://lake/p/a")
    assert isinstance(error, ObjectMissingError)
    assert error.message == "no object gs://lake/p/a"


def test_a_missing_bucket_is_no_missing_object() -> None:
    error = bucket_error(FileNotFoundError(text("404 Not Found", "NoSuchBucket")), "gs://lake/p/a")
    assert isinstance(error, StoreUnusableError)
    assert error.message == "gs://lake/p/a: the store answers status 404 NoSuchBucket"


def test_status_and_code_are_read_once() -> None:
    answer = answer_of(FileNotFoundError(text("503 Service Unavailable", "SlowDown")))
    assert (answer.status, answer.code, str(answer)) == (503, "SlowDown", "status 503 SlowDown")
