"""Reads Kafka client properties files, and translates them for librdkafka and for Spark's connector.

No secret is ever part of a repr or of an error.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from groupreplay.streaming.base.errors import unusable
from groupreplay.streaming.base.files import warn_readable

log = logging.getLogger(__name__)

MASK: Final = "********"
SECRET_KEYS: Final = (
    "*password*",
    "*secret*",
    "*token*",
    "*sasl.jaas.config",
    "*ssl.*.key",
    "*ssl.key.*",
    "*ssl.keystore.*",
    "*ssl.*.pem",
)
#: Those of them whose value itself lets somebody log in.
_SECRET_TEXTS: Final = ("ssl.key*.password", "ssl.keystore.key", "*.secret", "sasl.*password")

#: Settings with the same meaning in the Java client and in librdkafka: Java name -> librdkafka name.
RENAMED: Final[Mapping[str, str]] = {
    "client.dns.lookup": "client.dns.lookup",
    "client.id": "client.id",
    "client.rack": "client.rack",
    "connections.max.idle.ms": "connections.max.idle.ms",
    "metadata.max.age.ms": "metadata.max.age.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "reconnect.backoff.max.ms": "reconnect.backoff.max.ms",
    "reconnect.backoff.ms": "reconnect.backoff.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "retry.backoff.ms": "retry.backoff.ms",
    "sasl.kerberos.service.name": "sasl.kerberos.service.name",
    "sasl.mechanism": "sasl.mechanism",
    "security.protocol": "security.protocol",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "socket.connection.setup.timeout.ms": "socket.connection.setup.timeout.ms",
    "ssl.key.password": "ssl.key.password",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}

#: Settings that the job sets itself, or that Spark's connector rejects; references are resolved before.
_OURS: Final = (
    "bootstrap.servers",
    "group.id",
    "group.instance.id",
    "auto.offset.reset",
    "enable.auto.commit",
    "isolation.level",
    "interceptor.classes",
    "key.*serializer",
    "value.*serializer",
    "config.providers*",
)

_PEM_HINTS: Final[Mapping[str, str]] = {
    "ssl.truststore": "export it (keytool -exportcert -rfc -keystore FILE -alias NAME > ca.pem), then set "
    "ssl.truststore.type=PEM and ssl.truststore.location=ca.pem, and remove ssl.truststore.password",
    # No PEM: Java's client cannot read the encrypted key that openssl writes.
    "ssl.keystore": "convert it (keytool -importkeystore -srckeystore FILE -destkeystore client.p12 "
    "-deststoretype PKCS12), then set ssl.keystore.type=PKCS12, ssl.keystore.location=client.p12 and "
    "ssl.keystore.password to the password of the new file, and remove ssl.key.password",
}
#: Beginnings of names of settings that librdkafka receives in another form.
_TRANSLATED: Final = (
    *("ssl.truststore.", "ssl.keystore.", "ssl.endpoint.identification.algorithm"),
    *("sasl.jaas.config", "sasl.oauthbearer.token."),
)
_PASSWORD_LOGIN: Final = {"username": "sasl.username", "password": "sasl.password"}
#: SASL mechanism -> option of Java's login module -> librdkafka name.
_LOGINS: Final[Mapping[str, Mapping[str, str]]] = {
    "PLAIN": _PASSWORD_LOGIN,
    "SCRAM-SHA-256": _PASSWORD_LOGIN,
    "SCRAM-SHA-512": _PASSWORD_LOGIN,
    "GSSAPI": {"keyTab": "sasl.kerberos.keytab", "principal": "sasl.kerberos.principal"},
    "OAUTHBEARER": {
        "clientId": "sasl.oauthbearer.client.id",
        "clientSecret": "sasl.oauthbearer.client.secret",
        "scope": "sasl.oauthbearer.scope",
    },
}
#: Logins by IAM of Amazon MSK; librdkafka has them as OAUTHBEARER, with tokens of kafka/iam.py.
_IAM: Final = "AWS_MSK_IAM"
_IAM_HANDLER: Final = ".IAMOAuthBearerLoginCallbackHandler"
#: What stands before Kafka's packages in a connector that brings its own copy of them.
SHADED: Final = "kafkashaded."
#: Settings that name Java classes.
_CLASSES: Final = ("*sasl.jaas.config", "*.class", "*.classes", "metric.reporters")
#: A class of Kafka's at the beginning of a login module or of an entry of a list; never a password.
_KAFKA_CLASS: Final = re.compile(rf"(^|[;,])(\s*)(?:{re.escape(SHADED)})?(?=org\.apache\.kafka\.)")
_REFERENCE: Final = re.compile(r"\$\{(env|file):([^}]*)\}")


def is_secret(key: str) -> bool:
    """Whether the value of a setting must never be printed."""
    return any(fnmatchcase(key.lower(), pattern) for pattern in SECRET_KEYS)


def redact(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings with every secret value replaced."""
    return {key: MASK if is_secret(key) else value for key, value in settings.items()}


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """The settings of one Kafka client by Java name, with references resolved."""

    settings: Mapping[str, str] = field(default_factory=dict)
    origin: str = "built-in defaults"

    def __repr__(self) -> str:
        return f"ClientProperties({redact(self.settings)!r}, origin={self.origin!r})"

    @property
    def bootstrap_servers(self) -> str | None:
        """The bootstrap servers in the file, if it names them."""
        return self.settings.get("bootstrap.servers")

    def for_librdkafka(self) -> dict[str, str]:
        """The settings under librdkafka's names; settings that it does not know are left out.

        Raises:
            GroupReplayError: librdkafka cannot use a trust store, key store or login.
        """
        mapped = {RENAMED[key]: value for key, value in self.settings.items() if key in RENAMED}
        mapped |= _trust_store(self.settings) | _key_store(self.settings) | _login(self.settings)
        if "ssl.endpoint.identification.algorithm" in self.settings:
            algorithm = self.settings["ssl.endpoint.identification.algorithm"].strip()
            mapped["ssl.endpoint.identification.algorithm"] = algorithm.lower() or "none"
        for key in sorted(self.settings):
            if key not in RENAMED and not key.startswith(_TRANSLATED):
                log.debug("setting %s of %s is not used by the Python client", key, self.origin)
        return mapped

    def for_spark(self, *, shaded: bool = False) -> dict[str, str]:
        """The settings as options of Spark's Kafka connector; Java names, with its ``kafka.`` prefix.

        ``shaded``: the connector has Kafka's classes under ``SHADED``, as that of Databricks. Either form of a name in
        the file becomes the one that the connector loads.
        """
        prefix = SHADED if shaded else ""
        return {
            f"kafka.{key}": _class_names(key, value, prefix)
            for key, value in self.settings.items()
            if not any(fnmatchcase(key, ours) for ours in _OURS)
        }


def _class_names(key: str, value: str, prefix: str) -> str:
    """The value with this in front of the packages of Kafka's classes."""
    if not any(fnmatchcase(key, pattern) for pattern in _CLASSES):
        return value
    return _KAFKA_CLASS.sub(lambda found: f"{found[1]}{found[2]}{prefix}", value)


def load_properties(path: str | Path | None) -> ClientProperties:
    """Read a Kafka client properties file; None gives the defaults.

    Raises:
        GroupReplayError: the file, or a file or variable that it refers to, cannot be read.
    """
    if path is None:
        return ClientProperties()
    settings = parse_properties(_read(Path(path), "client properties file"))
    resolved = {key: _resolve(key, value, path) for key, value in settings.items()}
    _warn_of_modes(Path(path), settings, resolved)
    return ClientProperties(resolved, str(path))


def parse_properties(text: str) -> dict[str, str]:
    """The key and value pairs of Java's ``Properties.load``: comments, continuation lines, escapes."""
    return dict(_split(line) for line in _logical_lines(text))


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    key = re.match(r"(?:\\.|[^\\=: \t\f])*", line)
    end = key.end() if key else 0
    separator = re.compile(r"[ \t\f]*[=:]?[ \t\f]*").match(line, end)
    return _unescape(line[:end]), _unescape(line[separator.end() if separator else end :])


def _unescape(text: str) -> str:
    plain = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

    def replace(match: re.Match[str]) -> str:
        letter = match[1]
        return chr(int(letter[1:], 16)) if len(letter) == 5 else plain.get(letter, letter)

    unescaped = re.sub(r"\\(u[0-9a-fA-F]{4}|.)", replace, text, flags=re.DOTALL)
    # Java writes a character outside the Basic Multilingual Plane as two escapes.
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _warn_of_modes(path: Path, written: Mapping[str, str], resolved: Mapping[str, str]) -> None:
    """Warns of secrets that others can read: in the file itself, and in files that it names."""
    if any(_is_secret_text(key, _REFERENCE.sub("", value)) for key, value in written.items()):
        warn_readable(path, "login")
    for key, value in written.items():
        if _is_secret_text(key, resolved[key]):
            for provider, reference in _REFERENCE.findall(value):
                if provider == "file":
                    warn_readable(Path(reference.partition(":")[0]), "login")
    if store := resolved.get("ssl.keystore.location"):
        warn_readable(Path(store), "private key")
    if table := _jaas_options(resolved.get("sasl.jaas.config", "")).get("keyTab"):
        warn_readable(Path(table), "key table")


def _is_secret_text(key: str, text: str) -> bool:
    """Whether the value of a setting lets somebody log in; passwords of trust stores and names of files do not."""
    if key == "sasl.jaas.config":
        return any(_jaas_options(text).get(option) for option in ("password", "clientSecret"))
    return bool(text.strip()) and any(fnmatchcase(key, pattern) for pattern in _SECRET_TEXTS)


def _resolve(key: str, value: str, path: str | Path) -> str:
    """Replace ``${env:NAME}``, ``${file:PATH:KEY}`` (a key of a properties file) and ``${file:PATH}``."""

    def fetch(match: re.Match[str]) -> str:
        provider, reference = match[1], match[2]
        if provider == "env":
            name = reference.removeprefix(":")
            if name not in os.environ:
                raise unusable(
                    f"setting {key} refers to an environment variable that is not set",
                    str(path),
                    f"export {name}, or write the value in another way",
                )
            return os.environ[name]
        return _from_file(key, reference)

    return _REFERENCE.sub(fetch, value)


def _from_file(key: str, reference: str) -> str:
    location, _, name = reference.partition(":")
    text = _read(Path(location), f"file that setting {key} refers to")
    if not name:
        return text.strip()
    values = parse_properties(text)
    if name not in values:
        raise unusable(f"setting {key} refers to the key {name}, which is missing", location, "add the key")
    return values[name]


def _read(path: Path, kind: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        what, fix = f"cannot read the {kind}, {error.strerror}", "check the path and its permissions"
    except UnicodeDecodeError:
        what, fix = f"cannot read the {kind}, it is not UTF-8 text", "save the file as UTF-8"
    raise unusable(what, str(path), fix)


def _trust_store(settings: Mapping[str, str]) -> dict[str, str]:
    location = settings.get("ssl.truststore.location")
    if not location:
        return {}
    kind = settings.get("ssl.truststore.type", "JKS").upper()
    if kind != "PEM":
        what = f"a {kind} trust store cannot be read by the Python client"
        raise unusable(what, location, _PEM_HINTS["ssl.truststore"])
    _no_password(settings, "ssl.truststore.password")
    return {"ssl.ca.location": location}


def _key_store(settings: Mapping[str, str]) -> dict[str, str]:
    location = settings.get("ssl.keystore.location")
    if not location:
        return {}
    kind = settings.get("ssl.keystore.type", "JKS").upper()
    if kind == "PEM":
        _no_password(settings, "ssl.keystore.password")
        return {"ssl.certificate.location": location, "ssl.key.location": location}
    if kind == "PKCS12" or location.lower().endswith((".p12", ".pfx")):
        password = settings.get("ssl.keystore.password")
        return {"ssl.keystore.location": location} | ({"ssl.keystore.password": password} if password else {})
    what = f"a {kind} key store cannot be read by the Python client"
    raise unusable(what, location, _PEM_HINTS["ssl.keystore"])


def _no_password(settings: Mapping[str, str], name: str) -> None:
    """Java's client, which Spark uses, refuses it for a PEM file (``DefaultSslEngineFactory``)."""
    if settings.get(name):
        raise unusable(
            f"{name} cannot be given for a PEM file",
            name,
            "remove it; the password of an encrypted key is ssl.key.password",
        )


def iam_options(settings: Mapping[str, str]) -> Mapping[str, str] | None:
    """The options of a login by IAM of Amazon MSK, in either form of aws-msk-iam-auth; None: it is another login."""
    handler = settings.get("sasl.login.callback.handler.class", "").strip()
    if settings.get("sasl.mechanism", "").upper() != _IAM and not handler.endswith(_IAM_HANDLER):
        return None
    return _jaas_options(settings.get("sasl.jaas.config", ""))


def _login(settings: Mapping[str, str]) -> dict[str, str]:
    if iam_options(settings) is not None:
        return {"sasl.mechanism": "OAUTHBEARER"}
    jaas = settings.get("sasl.jaas.config")
    if not jaas:
        return {}
    mechanism = settings.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism not in _LOGINS:
        what = f"the Python client does not support the SASL mechanism {mechanism}"
        raise unusable(what, "sasl.mechanism", "use one of " + ", ".join(_LOGINS))
    options, names = _jaas_options(jaas), _LOGINS[mechanism]
    if names is _PASSWORD_LOGIN and not options.keys() >= names.keys():
        raise unusable(
            "the login module has no username and password",
            "sasl.jaas.config",
            'add both before its semicolon, with quotes, as in username="…"',
        )
    login = {name: options[option] for option, name in names.items() if options.get(option)}
    if mechanism == "OAUTHBEARER":
        login["sasl.oauthbearer.method"] = "oidc"
        endpoint = "sasl.oauthbearer.token.endpoint.url"
        login |= {endpoint: settings[endpoint]} if settings.get(endpoint) else {}
    return login


def _jaas_options(jaas: str) -> dict[str, str]:
    """The options of one JAAS login module: ``Module required name="value" …;``."""
    pairs = re.findall(r"""([\w.]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s;"']+))""", jaas)
    return {name: re.sub(r"\\(.)", r"\1", double or single or bare) for name, double, single, bare in pairs}
