"""What the library's errors mean to us: the one place where its exceptions and the stores' codes are read.

The library keeps status and code of an answer in its text only, as
``… status code: 503 Service Unavailable: <Error><Code>SlowDown</Code>…``; what follows ``Debug source`` repeats it, and
alone says what was wrong with a certificate.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from obstore.exceptions import BaseError, InvalidPathError, NotSupportedError

from mirrorlake.errors import (
    ConfigurationError,
    MirrorlakeError,
    PermissionDeniedError,
    StoreUnavailableError,
    StoreUnusableError,
)
from mirrorlake.stores.object_store import ObjectMissingError

LIBRARY_ERRORS = (BaseError, FileNotFoundError, ValueError, OSError)
"""What the library raises; it uses some of Python's own exceptions beside its tree."""

_STATUS = re.compile(r"status code: (\d{3})")
# A number there says no more than the status does.
_CODE = re.compile(r"<Code>([A-Za-z][A-Za-z0-9.]{0,79})</Code>")
_QUERY = re.compile(r"\?[^\s)]*")
_CERTIFICATE = re.compile(r"InvalidCertificate\(\s*(\w+)")
_TEXT_LENGTH_MAX = 300

_NO_OBJECT = {"", "NoSuchKey", "BlobNotFound", "NotFound"}
_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound"}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"}
_PASSING_STATUS = {408, 409, 412, 425, 429}
_CERTIFICATE_HINTS = {
    "UnknownIssuer": "name the authority that issued it in `ca-file`",
    "NotValidForName": "correct the host in `endpoint`, or let the certificate name it",
    "Expired": "renew it, or set this machine's clock",
    "NotValidYet": "set this machine's clock",
}
_METADATA_SERVICE = re.compile(
    r"Error performing (?:PUT|GET|POST) \S*(?:169\.254\.1\d\d\.\d+|fd00:ec2::254|metadata\.google\.internal"
    r"|/latest/(?:api/token|meta-data/)|/computeMetadata/|/metadata/identity/)"
)
"""A request that asked the machine for credentials, not the store for anything: by address, or by its path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a store said; ``status`` 0 where it said nothing, ``code`` empty where there is none."""

    status: int
    code: str
    text: str

    def __str__(self) -> str:
        return f"status {self.status} {self.code}".rstrip() if self.status else self.text


def answer_of(error: Exception) -> Answer:
    """Returns what the library's error tells about the store's answer."""
    text = str(error).partition("\n\nDebug source")[0]
    status = _STATUS.search(text)
    code = _CODE.search(text)
    # A query may hold a signature that is as good as a password for a while.
    shown = _QUERY.sub("?…", text.partition("\n")[0])[:_TEXT_LENGTH_MAX]
    return Answer(status=int(status[1]) if status else 0, code=code[1] if code else "", text=shown)


def bucket_error(error: Exception, where: str) -> MirrorlakeError:
    """Returns the error of ours that ``error`` means, naming ``where``; raise it ``from`` the original.

    What is not known is taken as passing: the supervisor tries again, visibly, and nothing is lost.
    """
    if isinstance(error, MirrorlakeError):
        return error
    answer = answer_of(error)
    if _METADATA_SERVICE.search(str(error)):
        return _without_credentials(answer, where)
    if isinstance(error, InvalidPathError):
        return ConfigurationError(f"{where}: {answer}", hint="choose another name for the destination")
    if answer.status:
        return _answered(answer, where)
    if isinstance(error, FileNotFoundError):
        return ObjectMissingError(f"no object {where}", key=where)
    if isinstance(error, NotSupportedError):
        return StoreUnusableError(f"{where}: {answer}", hint="use a store that can do it")
    if "path segment" in answer.text:
        return StoreUnusableError(f"{where}: {answer}", hint="a foreign object's key lies there: move it away")
    if reason := _CERTIFICATE.search(str(error)):
        return StoreUnavailableError(
            f"{where}: the certificate of the store is refused ({reason[1]}); {answer}",
            hint=_CERTIFICATE_HINTS.get(reason[1].removesuffix("Context"), "mend the store's certificate"),
            status=0,
        )
    return StoreUnavailableError(f"{where}: {answer}", status=0)


def _without_credentials(answer: Answer, where: str) -> MirrorlakeError:
    """Returns what it means that the last place to look for credentials, the machine's own service, gave none.

    A service that is not there may be late, or away; one that says no will say so again.
    """
    is_refused = 400 <= answer.status < 500 and answer.status not in _PASSING_STATUS
    kind = PermissionDeniedError if is_refused else StoreUnavailableError
    return kind(
        f"{where}: no credentials for the store were found: none are configured, none are in the environment, and this "
        f"machine's metadata service gives none ({answer if answer.status else 'it does not answer'})",
        hint="name them in the store's section, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE "
        "(of other stores: what their section says)",
        status=answer.status,
    )


_WRONG_CREDENTIALS = {
    "SignatureDoesNotMatch": "correct the secret access key; else a proxy on the way changes requests",
    "InvalidAccessKeyId": "correct the access key id: the store does not know it",
}
"""By S3's error codes: what is refused is who asks, whatever the rights."""


def _answered(answer: Answer, where: str) -> MirrorlakeError:
    message = f"{where}: the store answers {answer}"
    status, code = answer.status, answer.code
    if code in _EXPIRED:
        return StoreUnavailableError(message, hint="the credentials have expired: renew them", status=status, code=code)
    if code == "RequestTimeTooSkewed":
        return StoreUnavailableError(message, hint="set this machine's clock", status=status, code=code)
    if code == "KeyTooLongError":
        return ConfigurationError(message, hint="choose a shorter name for the destination, or a shorter prefix")
    if status == 404 and code in _NO_OBJECT:
        return ObjectMissingError(f"no object {where}", key=where)
    if code in _NO_BUCKET:
        hint = "create it, or correct its name; it is never made by itself"
        return StoreUnusableError(message, hint=hint, status=status, code=code)
    if status in (401, 403):
        hint = _WRONG_CREDENTIALS.get(code, "give these credentials the right to list, read, create and delete there")
        return PermissionDeniedError(message, hint=hint, status=status, code=code)
    if status in _PASSING_STATUS or status >= 500 or code in ("RequestTimeout", "SlowDown"):
        is_refusal = status == 501
        kind = StoreUnusableError if is_refusal else StoreUnavailableError
        return kind(message, hint="use a store that can do it" if is_refusal else "", status=status, code=code)
    hint = "correct `region` or `endpoint`" if status < 400 or code == "AuthorizationHeaderMalformed" else ""
    return StoreUnusableError(message, hint=hint, status=status, code=code)


def cause_of(error: Exception) -> Exception | None:
    """Returns the error as the cause to keep; None where its text holds a signature that must not be printed."""
    return None if "sig=" in str(error).lower() else error


@contextmanager
def bucket_errors_as_ours(where: str) -> Iterator[None]:
    """Turns every error of the library raised inside into one of ours that names ``where``."""
    try:
        yield
    except LIBRARY_ERRORS as error:
        raise bucket_error(error, where) from cause_of(error)
