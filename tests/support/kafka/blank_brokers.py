"""A broker that tests of one process use one after the other; each finds it without topics, groups and records.

Emptying a broker costs a twentieth of a start. A test needs one of its own (``EmbeddedBroker``) if it changes settings
of the broker or of groups, reads the broker's log, or needs the first start.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from groupreplay.streaming.local.broker import EmbeddedBroker, _coordinates
from support.kafka.waiting import wait_until

_EMPTY: Final = {ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD}

#: Those that tests use now; each is started again before a test if it ended under the one before.
IN_USE: Final[list[EmbeddedBroker]] = []

#: At most one, by its partitions: a broker that nobody uses costs two or three percent of a core.
_FREE: dict[int, EmbeddedBroker] = {}


@contextmanager
def blank_broker(offsets_partitions: int = 4) -> Iterator[EmbeddedBroker]:
    """A running broker with an empty offsets topic of so many partitions.

    It may be stopped, killed and started. One that is not running afterwards, or whose groups still have members, is
    not used again.
    """
    broker = _emptied(offsets_partitions) or EmbeddedBroker(offsets_partitions=offsets_partitions)
    try:
        broker.start()
        IN_USE.append(broker)
        yield broker
    except BaseException:
        broker.close()
        raise
    finally:
        IN_USE[:] = [other for other in IN_USE if other is not broker]
    close_free()
    _FREE[offsets_partitions] = broker


def close_free() -> None:
    """Ends the broker that no test uses."""
    while _FREE:
        _FREE.popitem()[1].close()


def _emptied(offsets_partitions: int) -> EmbeddedBroker | None:
    """The free broker, if it has so many partitions and can be emptied."""
    broker = _FREE.pop(offsets_partitions, None)
    if broker is None:
        close_free()
        return None
    if broker.pid is not None and _empty(broker):
        return broker
    broker.close()
    return None


def _empty(broker: EmbeddedBroker) -> bool:
    """Deletes all topics, with them all groups; False if somebody still uses the broker, or it does not answer."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    try:
        if any(group.state not in _EMPTY for group in admin.list_consumer_groups().result(60).valid):
            return False
        for deletion in admin.delete_topics(_topics(admin)).values():
            deletion.result(60)
        wait_until(lambda: not _topics(admin))
        wait_until(lambda: _is_new(admin))
    except (KafkaException, AssertionError):
        return False
    return True


def _topics(admin: AdminClient) -> list[str]:
    return list(admin.list_topics(timeout=60).topics)


def _is_new(admin: AdminClient) -> bool:
    """Whether the coordinators have forgotten all groups and loaded the new offsets topic."""
    return _coordinates(admin) and not admin.list_consumer_groups().result(60).valid
