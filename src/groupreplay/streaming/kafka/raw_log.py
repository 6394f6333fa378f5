"""Batches of a topic as brokers store them: with producer ids, which librdkafka's consumer does not hand on.

They are fetched by aiokafka's client (extra ``logs``), with the connection settings of librdkafka.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from groupreplay.streaming.base.errors import EXTRAS, GroupReplayError
from groupreplay.streaming.kafka.clients import ANSWER_SECONDS, Connection

_MOST_BYTES: Final = 16 << 20
#: Of settings beside these, and of other mechanisms, aiokafka has none or other ones.
_MECHANISMS: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})


def raw_log(connection: Connection, topic: str, spans: Mapping[int, tuple[int, int]]) -> dict[int, bytes]:
    """The record batches of each partition from its first offset (committed or not) up to the second one.

    Raises:
        GroupReplayError: the extra is not installed, aiokafka cannot log in, or the leaders do not answer.
    """
    try:
        import google_crc32c  # noqa: F401 - whoever takes the batches apart needs it, and is not asked
        from aiokafka.errors import KafkaError
    except ImportError as error:
        missing = EXTRAS["logs"].get((error.name or "").partition(".")[0], "aiokafka")
        raise _unread(connection, f"{missing} is not installed", "pip install 'groupreplay[logs]'") from None
    settings = _settings(connection)
    # A notebook has a loop of its own in its thread.
    with ThreadPoolExecutor(1) as thread:
        try:
            return thread.submit(asyncio.run, _fetched(settings, topic, spans)).result()
        except (KafkaError, OSError, asyncio.TimeoutError) as error:
            raise _unread(connection, str(error) or type(error).__name__, "try again") from None


def _unread(connection: Connection, why: str, fix: str) -> GroupReplayError:
    return GroupReplayError(
        f"what open transactions have written cannot be read: {why}",
        where=connection.cluster.bootstrap_servers,
        fix=fix,
    )


def _settings(connection: Connection) -> dict[str, Any]:
    """The settings of aiokafka's client."""
    known = connection.security()
    protocol = str(known.get("security.protocol", "PLAINTEXT")).upper()
    settings: dict[str, Any] = {
        "bootstrap_servers": connection.cluster.bootstrap_servers,
        "client_id": "groupreplay",
        "security_protocol": protocol,
    }
    if protocol.startswith("SASL"):
        mechanism = str(known.get("sasl.mechanism") or known.get("sasl.mechanisms") or "GSSAPI")
        if mechanism not in _MECHANISMS:
            raise _unread(
                connection, f"logins with {mechanism} are not supported for it", "use another login"
            )
        settings |= {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": known.get("sasl.username", ""),
            "sasl_plain_password": known.get("sasl.password", ""),
        }
    if protocol.endswith("SSL"):
        settings["ssl_context"] = _ssl_context(known)
    return settings


def _ssl_context(known: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=known.get("ssl.ca.location"), cadata=known.get("ssl.ca.pem"))
    if known.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if (certificate := known.get("ssl.certificate.location")) is not None:
        context.load_cert_chain(certificate, known.get("ssl.key.location"), known.get("ssl.key.password"))
    return context


async def _fetched(
    settings: Mapping[str, Any], topic: str, spans: Mapping[int, tuple[int, int]]
) -> dict[int, bytes]:
    from aiokafka.client import AIOKafkaClient

    client = AIOKafkaClient(**settings)
    try:
        await asyncio.wait_for(client.bootstrap(), ANSWER_SECONDS)
        await asyncio.wait_for(client.set_topics([topic]), ANSWER_SECONDS)
        return {
            partition: await _of_partition(client, topic, partition, *span)
            for partition, span in spans.items()
        }
    finally:
        await client.close()


async def _of_partition(client: Any, topic: str, partition: int, offset: int, end: int) -> bytes:
    from aiokafka.errors import LeaderNotAvailableError, for_code
    from aiokafka.protocol.fetch import FetchRequest
    from aiokafka.structs import TopicPartition

    leader, data = client.cluster.leader_for_partition(TopicPartition(topic, partition)), b""
    if leader is None or leader < 0:
        raise LeaderNotAvailableError
    while offset < end:
        request = FetchRequest(500, 1, _MOST_BYTES, 0, [(topic, [(partition, offset, _MOST_BYTES)])])
        response = await asyncio.wait_for(client.send(leader, request), ANSWER_SECONDS)
        ((_, ((_, code, *_, records),)),) = response.topics
        if code:
            raise for_code(code)
        last = _last_offset(records)
        if last is None or last < offset:
            break
        data, offset = data + records, last + 1
    return data


def _last_offset(records: bytes) -> int | None:
    """The last offset of the whole batches in these bytes; a broker may cut the last one."""
    from struct import unpack_from

    at, last = 0, None
    while len(records) - at >= 61:
        base, length = unpack_from(">qi", records, at)
        if len(records) - at < 12 + length:
            break
        last = base + unpack_from(">i", records, at + 23)[0]
        at += 12 + length
    return last
