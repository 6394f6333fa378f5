"""Batches of a topic as brokers store them: with producer ids, which librdkafka's consumer does not hand on.

They are fetched by aiokafka's client (extra ``logs``), with the connection settings of librdkafka.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from struct import unpack_from
from typing import Any, Final, NamedTuple, TypeVar

from groupreplay.streaming.base.errors import GroupReplayError, missing_packages
from groupreplay.streaming.kafka.clients import ANSWER_SECONDS, Connection

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_MOST_BYTES: Final = 16 << 20
#: Of settings beside these, and of other mechanisms, aiokafka has none or other ones.
_MECHANISMS: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})


class Fetched(NamedTuple):
    """Batches as they were sent, the last of them perhaps not whole, and aborted transactions with some of them.

    ``aborted`` are producer ids with the first offset of the transaction; none if they were not asked for.
    """

    batches: bytes
    aborted: Sequence[tuple[int, int]]


class RawLog:
    """Fetches from the leaders of a topic. Its loop has a thread of its own: a notebook has one in its thread.

    Raises:
        GroupReplayError: the extra is not installed, or aiokafka cannot log in; also what ``fetch`` returns.
    """

    def __init__(self, connection: Connection, topic: str, *, committed: bool) -> None:
        settings = _settings(connection)
        try:
            from aiokafka.errors import KafkaError
        except ImportError as error:
            raise _unread(connection, f"aiokafka: {error}", "pip install 'groupreplay[logs]'") from None
        self._connection, self._topic, self._committed = connection, topic, committed
        self._failures = (KafkaError, OSError, asyncio.TimeoutError)
        self._thread, self._loop = ThreadPoolExecutor(1), asyncio.new_event_loop()
        self._client: Any = None
        try:
            self._submit(self._open(settings)).result()
        except GroupReplayError:
            self.close()
            raise

    def fetch(self, partition: int, offset: int, most_bytes: int = _MOST_BYTES) -> Future[Fetched]:
        """From the batch with this offset on; waits half a second for one."""
        return self._submit(self._fetch(partition, offset, most_bytes))

    def close(self) -> None:
        """Waits for what was asked, and closes the connections."""
        if self._client is not None:
            self._submit(self._client.close()).result()
        self._thread.submit(self._loop.close).result()
        self._thread.shutdown()

    def _submit(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        def run() -> _T:
            try:
                return self._loop.run_until_complete(asyncio.wait_for(work, ANSWER_SECONDS))
            except self._failures as error:
                raise _unread(self._connection, str(error) or type(error).__name__, "try again") from None

        return self._thread.submit(run)

    async def _open(self, settings: Mapping[str, Any]) -> None:
        from aiokafka.client import AIOKafkaClient

        self._client = AIOKafkaClient(**settings)
        await self._client.bootstrap()
        await self._client.set_topics([self._topic])

    async def _fetch(self, partition: int, offset: int, most_bytes: int) -> Fetched:
        from aiokafka.errors import LeaderNotAvailableError, for_code
        from aiokafka.protocol.fetch import FetchRequest
        from aiokafka.structs import TopicPartition

        leader = self._client.cluster.leader_for_partition(TopicPartition(self._topic, partition))
        if leader is None or leader < 0:
            raise LeaderNotAvailableError
        spans = [(self._topic, [(partition, offset, most_bytes)])]
        response = await self._client.send(
            leader, FetchRequest(500, 1, most_bytes, int(self._committed), spans)
        )
        ((_, ((_, code, *_, batches),)),) = response.topics
        if code:
            raise for_code(code)
        return Fetched(batches or b"", _aborted(response))


def _aborted(response: Any) -> Sequence[tuple[int, int]]:
    """The field of this name, which is at another place in each version of the response."""
    fields = response.SCHEMA.fields[-1].array_of.fields[-1].array_of
    ((_, (partition,)),) = response.topics
    return dict(zip(fields.names, partition, strict=True)).get("aborted_transactions") or ()


def can_fetch(connection: Connection, topic: str) -> bool:
    """Whether ``RawLog`` reaches the brokers with the libraries that are installed and the login of this connection."""
    try:
        with closing(RawLog(connection, topic, committed=True)):
            return True
    # Some settings of librdkafka, such as certificates in the text, mean nothing to the other client.
    except Exception as error:
        log.debug("the batches of %s cannot be fetched: %s", topic, error or type(error).__name__)
        return False


def raw_log(connection: Connection, topic: str, spans: Mapping[int, tuple[int, int]]) -> dict[int, bytes]:
    """The record batches of each partition from its first offset (committed or not) up to the second one.

    Raises:
        GroupReplayError: the extra is not installed, aiokafka cannot log in, or the leaders do not answer.
    """
    with closing(RawLog(connection, topic, committed=False)) as log:
        return {partition: _of_partition(log, partition, *span) for partition, span in spans.items()}


def _of_partition(log: RawLog, partition: int, offset: int, end: int) -> bytes:
    data = b""
    while offset < end:
        batches = log.fetch(partition, offset).result().batches
        last = last_offset(batches)
        if last is None or last < offset:
            break
        data, offset = data + batches, last + 1
    return data


def _unread(connection: Connection, why: str, fix: str) -> GroupReplayError:
    return GroupReplayError(
        f"record batches cannot be fetched: {why}",
        where=connection.cluster.bootstrap_servers,
        fix=fix,
    )


def _settings(connection: Connection) -> dict[str, Any]:
    """The settings of aiokafka's client, if the extra is installed."""
    # All of it: whoever takes the batches apart needs the rest, and is not asked.
    if missing := missing_packages("logs"):
        raise _unread(connection, f"{missing[0]} is not installed", "pip install 'groupreplay[logs]'")
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


def last_offset(records: bytes) -> int | None:
    """The last offset of the whole batches in these bytes; a broker may cut the last one."""
    at, last = 0, None
    while len(records) - at >= 61:
        base, length = unpack_from(">qi", records, at)
        if len(records) - at < 12 + length:
            break
        last = base + unpack_from(">i", records, at + 23)[0]
        at += 12 + length
    return last
