"""A broker with authentication (SCRAM over TLS, with its own certificates) and authorisation."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from groupreplay.streaming.kafka.rights import Right
from groupreplay.streaming.local.broker import EmbeddedBroker, free_ports

USER = "replayer"
#: May do everything, through the address with access control, too; `create_user` makes its login.
ADMINISTRATOR = "admin"
#: The name in the client's certificate.
CERTIFIED = "certified"
#: A unique text: any output that contains it has leaked the password.
PASSWORD = "Pa55-of-the-replayer-7f3a9c"
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_KINDS = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "cluster": ResourceType.BROKER}


@dataclass(frozen=True)
class SecuredBroker:
    """The broker: its plain listener is for the administrator, ``checked`` is the address with access control.

    ``mutual`` is an address that wants a certificate of its clients: that in ``client``, which may do everything.
    """

    broker: EmbeddedBroker
    checked: str
    mutual: str
    ca: Path
    client: Path
    #: The administrator's client; the object keeps it, because garbage collection would discard its futures.
    admin: AdminClient

    def allow_only(self, rights: Collection[Right]) -> None:
        """Replaces all rights of the user."""
        anything = (None, "*", AclOperation.ANY, AclPermissionType.ANY)
        every = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, *anything)
        for result in self.admin.delete_acls([every]).values():
            result.result(10)
        if rights:
            for result in self.admin.create_acls(list(map(_binding, dict.fromkeys(rights)))).values():
                result.result(10)

    def properties(self, folder: Path, password: str = PASSWORD, user: str = USER) -> Path:
        """A client properties file with the login of a user."""
        path = folder / ("client.properties" if user == USER else f"{user}.properties")
        path.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
            f'sasl.jaas.config={_LOGIN} username="{user}" password="{password}";\n'
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.ca}\n"
        )
        return path

    def create_user(self, name: str) -> None:
        """A further login, with the same password."""
        login = UserScramCredentialUpsertion(
            name, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORD.encode()
        )
        for result in self.admin.alter_user_scram_credentials([login]).values():
            result.result(10)


def _binding(right: Right) -> Any:
    return AclBinding(
        _KINDS[right.kind],
        right.name or "kafka-cluster",
        ResourcePatternType.PREFIXED if right.prefixed else ResourcePatternType.LITERAL,
        f"User:{USER}",
        "*",
        AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", right.operation).upper()],
        AclPermissionType.ALLOW,
    )


def _write_store(path: Path, certificate: trustme.LeafCert) -> None:
    """The key and the chain of a certificate, as Java reads them: only PKCS #8 keys."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    path.write_bytes(b"".join([key, *(one.bytes() for one in certificate.cert_chain_pems)]))


@contextmanager
def secured_broker(folder: Path) -> Iterator[SecuredBroker]:
    """A broker with one user; its certificates are written to the folder."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    _write_store(folder / "broker.pem", certificate)
    _write_store(folder / "client.pem", authority.issue_cert("client", common_name=CERTIFIED))
    plain, controller, checked, mutual = free_ports(4)
    addresses = {"PLAINTEXT": plain, "CHECKED": checked, "MUTUAL": mutual}
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in addresses.items())
    overrides = {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": listeners,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CHECKED:SASL_SSL,MUTUAL:SSL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.checked.scram-sha-512.sasl.jaas.config": f"{_LOGIN};",
        **{f"listener.name.{name}.ssl.keystore.type": "PEM" for name in ("checked", "mutual")},
        **{
            f"listener.name.{name}.ssl.keystore.location": folder / "broker.pem"
            for name in ("checked", "mutual")
        },
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": folder / "ca.pem",
        "ssl.principal.mapping.rules": "RULE:.*CN=([^,]*).*/$1/",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{ADMINISTRATOR};User:{CERTIFIED}",
    }
    with EmbeddedBroker(port=plain, overrides=overrides) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        files = folder / "ca.pem", folder / "client.pem"
        found = SecuredBroker(broker, f"127.0.0.1:{checked}", f"127.0.0.1:{mutual}", *files, admin)
        found.create_user(USER)
        yield found
