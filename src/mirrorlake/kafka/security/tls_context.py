"""Makes TLS contexts from settings, once per process and again when a file has changed."""

import contextlib
import os
import ssl
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from mirrorlake.errors import ConfigurationError
from mirrorlake.security import TlsSettings

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_DER_SEQUENCE = b"\x30"
_CONTEXTS_MAX = 32

Stamp = tuple[tuple[str, int, int, int], ...]

_contexts: dict[tuple[str, TlsSettings], tuple[Stamp, ssl.SSLContext]] = {}
_lock = threading.Lock()


def tls_context(cluster: str, tls: TlsSettings) -> ssl.SSLContext:
    """Returns the context for a cluster's settings; reading certificates takes milliseconds, so contexts are kept.

    A file that was replaced (a renewed certificate) is seen by the next connection.

    Raises:
        ConfigurationError: a file cannot be read, or is not what it should be; names cluster, file and remedy.
    """
    key = (cluster, tls)
    stamp = _stamp(tls)
    with _lock:
        known = _contexts.get(key)
        if known is not None and known[0] == stamp:
            return known[1]
        context = _make(cluster, tls)
        while len(_contexts) >= _CONTEXTS_MAX:
            del _contexts[next(iter(_contexts))]
        _contexts[key] = (stamp, context)
        return context


def _stamp(tls: TlsSettings) -> Stamp:
    stamps = []
    for path in (tls.trusted_file, tls.own_file, tls.own_key_file):
        if path is not None:
            with contextlib.suppress(OSError):
                status = path.stat()
                stamps.append((str(path), status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(stamps)


def _make(cluster: str, tls: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.checks_hostname
    context.verify_mode = ssl.CERT_REQUIRED
    # Whatever stands in the truststore is trusted as it is, as in Java: an intermediate authority, or the certificate.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    versions = [_VERSIONS[version] for version in tls.versions]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    load_trusted(context, cluster, tls)
    if tls.has_own_certificate:
        _load_own(context, cluster, tls)
    return context


def load_trusted(context: ssl.SSLContext, cluster: str, tls: TlsSettings) -> None:
    """Makes a context trust what the settings say, or, where they say nothing, what the operating system trusts.

    Raises:
        ConfigurationError: see `tls_context`.
    """
    if tls.trusted_file is None and tls.trusted_pem is None:
        context.load_default_certs()
        return
    for name, text in (
        ("ssl.truststore.location", _read_pem(cluster, tls.trusted_file, "ssl.truststore.location")),
        ("ssl.truststore.certificates", tls.trusted_pem),
    ):
        if text is None:
            continue
        try:
            context.load_verify_locations(cadata=text)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigurationError(
                f"{name} of cluster {cluster!r} holds no certificate that can be read"
                + (f": {tls.trusted_file}" if name.endswith("location") else ""),
                hint="it must be PEM: -----BEGIN CERTIFICATE----- …",
                cluster=cluster,
            ) from error


def _load_own(context: ssl.SSLContext, cluster: str, tls: TlsSettings) -> None:
    _read_pem(cluster, tls.own_file, "ssl.keystore.location")
    password = tls.own_key_password.reveal() if tls.own_key_password is not None else ""
    try:
        with _own_files(tls) as (chain, key):
            # A password is always given, an empty one too: without, OpenSSL would ask at the terminal.
            context.load_cert_chain(chain, key, password=lambda: password)
    except (ssl.SSLError, OSError, ValueError) as error:
        named = ", ".join(str(path) for path in (tls.own_file, tls.own_key_file) if path is not None)
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or "unreadable"
        raise ConfigurationError(
            f"the client's certificate and key of cluster {cluster!r} cannot be used"
            f"{f' ({named})' if named else ''}: {str(reason).lower().replace('_', ' ')}",
            hint="ssl.keystore.* must be PEM and hold the private key and its certificate chain; "
            "an encrypted key needs ssl.key.password",
            cluster=cluster,
        ) from None


@contextlib.contextmanager
def _own_files(tls: TlsSettings) -> Iterator[tuple[str, str | None]]:
    """Yields the files of chain and key: OpenSSL reads files only, so text goes through one in memory."""
    if tls.own_file is not None:
        yield str(tls.own_file), str(tls.own_key_file) if tls.own_key_file is not None else None
        return
    assert tls.own_chain_pem is not None
    assert tls.own_key_pem is not None
    both = f"{tls.own_key_pem.reveal().strip()}\n{tls.own_chain_pem.strip()}\n".encode()
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("mirrorlake-tls"), "wb") as memory:
            memory.write(both)
            memory.flush()
            yield f"/proc/self/fd/{memory.fileno()}", None
    else:
        with tempfile.NamedTemporaryFile() as private:  # made for its owner only
            private.write(both)
            private.flush()
            yield private.name, None


def _read_pem(cluster: str, path: Path | None, name: str) -> str | None:
    if path is None:
        return None
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"{name} of cluster {cluster!r} cannot be read: {path}: {error.strerror}",
            hint="it must exist on every machine that runs a task, and be readable by this user",
            cluster=cluster,
        ) from None
    if content.startswith((_JKS_MAGIC, _DER_SEQUENCE)):
        kind = "JKS" if content.startswith(_JKS_MAGIC) else "PKCS12"
        raise ConfigurationError(
            f"{name} of cluster {cluster!r} is a {kind} file: {path}; only PEM is read",
            hint=pem_remedy(kind, str(path)),
            cluster=cluster,
        )
    return content.decode("latin-1")


def pem_remedy(kind: str, path: str) -> str:
    """Returns the commands that make a PEM file of a Java key store."""
    first = f"keytool -importkeystore -srckeystore {path} -destkeystore store.p12 -deststoretype PKCS12, then "
    source = "store.p12" if kind == "JKS" else path
    return f"{first if kind == 'JKS' else ''}openssl pkcs12 -in {source} -out store.pem, and name store.pem"
