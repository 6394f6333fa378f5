"""Why open transactions cannot be read, and what is said to do: the library of the extra, and a login that it has."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from groupreplay.codecs.kafka_terms import partition_for
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.raw_log import raw_log
from groupreplay.streaming.kafka.rights import source_rights
from support.kafka.secured import SecuredBroker
from support.remedies import installs, read_remedy

pytestmark = pytest.mark.broker


def read(guarded: SecuredBroker, folder: Path, **changed: str) -> bytes:
    """The batches of the partition with the group of the fixture, by the login of the user, or by another one."""
    guarded.allow_only(source_rights(probe=False, ask_retention=False))
    lines = guarded.properties(folder).read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines) | {
        name.replace("_", "."): value for name, value in changed.items()
    }
    connection = Connection(Cluster(bootstrap_servers=guarded.checked, properties=properties))
    plain = Connection(Cluster(bootstrap_servers=guarded.broker.bootstrap_servers))
    number = partition_for("backfill", plain.identify(OFFSETS_TOPIC).partitions)
    end = plain.high_watermarks(OFFSETS_TOPIC, number + 1)[number]
    return raw_log(connection, OFFSETS_TOPIC, {number: (0, end)})[number]


def test_without_the_library(guarded: SecuredBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The named extra brings both packages, and with them the batches are read."""
    for module, package in (("google_crc32c", "google-crc32c"), ("aiokafka", "aiokafka")):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            with pytest.raises(GroupReplayError, match=f"{package} is not installed") as caught:
                read(guarded, tmp_path)
        read_remedy("streaming.kafka.raw_log: pip install", str(caught.value))
        installs(str(caught.value), module)
    assert b"backfill" in read(guarded, tmp_path)


def test_a_login_that_the_library_has_not(guarded: SecuredBroker, tmp_path: Path) -> None:
    """Tokens are refused before a broker is asked; the same user's password works."""
    with pytest.raises(GroupReplayError, match="logins with OAUTHBEARER are not supported") as caught:
        read(
            guarded,
            tmp_path,
            sasl_mechanism="OAUTHBEARER",
            sasl_jaas_config="org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            "clientId='me' clientSecret='s';",
        )
    read_remedy("streaming.kafka.raw_log: use another login", str(caught.value))
    assert b"backfill" in read(guarded, tmp_path)
