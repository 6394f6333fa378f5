"""What ``watch`` has printed, held against a replay of a capture, or against the job beside it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from groupreplay.state.phrases import timestamp
from groupreplay.streaming.base.clock import now_ms
from support.job.captures import printed_by
from support.job.jobs import Json, RunningJob, comparable, is_in_a_replay, said_of_groups
from support.job.watch_process import WatchProcess, watching_process
from support.kafka.clients import make_topics
from support.kafka.waiting import wait_until
from support.ordeals.churn import GROUPS, ORDERS, churning
from support.ordeals.comparison import differences

#: What a prober, or a capture, asks the brokers about each group of a newer kind.
_SESSIONS = ("group.consumer.session.timeout.ms=45000", "group.consumer.heartbeat.interval.ms=5000")
_GIVEN = ("--member-events", *(word for value in _SESSIONS for word in ("--broker-property", value)))
#: Of ``run`` and ``watch``. The answers of a prober are in no log, and two probers get different ones.
FLAGS = ("--no-probe", *_GIVEN)
_CAPTURES, _BETWEEN_CAPTURES_SECONDS = 20, 5.0
_SHOWN = 20


@contextmanager
def watching_groups(servers: str, folder: Path, seed: int) -> Iterator[WatchProcess]:
    """A watch with a state file among churning groups.

    When the block ends and all is quiet again, its events are compared with the replay of a capture.
    """
    print(f"seed {seed}")  # noqa: T201
    make_topics(servers, {ORDERS: 4})
    since_ms = now_ms()
    with watching(servers, folder) as watch:
        with churning(servers, seed):
            yield watch
        compare_with_capture(watch, since_ms)


@contextmanager
def watching(servers: str, folder: Path) -> Iterator[WatchProcess]:
    """A watch with a state file and a file of events, from the moment when it has caught up."""
    flags = ("--state", str(folder / "state.db"), "--jsonl", str(folder / "events.jsonl"), *FLAGS)
    with watching_process(servers, folder, *flags) as watch:
        yield watch


def printed(watch: WatchProcess) -> dict[str, Json]:
    """The events about groups that all processes have printed, by id; repeats were compared.

    Of outages of the brokers each reports what it has noticed itself, and incidents across groups are found by ``run``.
    """
    return {event["id"]: comparable(event) for event in watch.events() if is_in_a_replay(event)}


def compare_with_capture(watch: WatchProcess, since_ms: int) -> None:
    """The events are those of a replay of what the topic holds in the end, and each is in the file of events once."""
    expected: dict[str, Json] = {}
    events: dict[str, Json] = {}
    for number in range(_CAPTURES):
        begun = timestamp(now_ms())
        expected = _replayed(watch.servers, watch.folder / f"capture-{number}.parquet", since_ms)
        # What has happened since is in no capture: a member that is thrown out late, a condition that ends by time.
        events = {
            name: event for name, event in printed(watch).items() if name in expected or event["time"] < begun
        }
        if events.keys() == expected.keys():
            break
        time.sleep(_BETWEEN_CAPTURES_SECONDS)
    _require_same(events, expected)
    _require_once(watch)


def compare_with_job(watch: WatchProcess, job: RunningJob) -> None:
    """Both have reported the same events with the same ids."""

    def of_job() -> dict[str, Json]:
        return said_of_groups(job.events(), printed(watch))

    with suppress(AssertionError):
        wait_until(lambda: printed(watch).keys() == of_job().keys(), 300, pause=2.0)
    _require_same(printed(watch), of_job())


def _require_same(events: dict[str, Json], expected: dict[str, Json]) -> None:
    assert not (different := differences(events, expected)), "\n".join(different[:_SHOWN])
    groups = {event["data"]["group_id"] for event in expected.values()}
    assert any(name.startswith("written") for name in groups), "nothing was written into the log"
    assert groups & GROUPS.keys(), "no group has lived"
    print(f"{len(expected)} events of {len(groups)} groups")  # noqa: T201


def _require_once(watch: WatchProcess) -> None:
    """Each event is in the file of events, and none is there twice."""

    def ids() -> list[str]:
        events = map(json.loads, (watch.folder / "events.jsonl").read_text().splitlines())
        return sorted(event["id"] for event in events if is_in_a_replay(event))

    with suppress(AssertionError):
        wait_until(lambda: len(ids()) >= len(printed(watch)), 60, pause=0.5)
    assert ids() == sorted(printed(watch))


def _replayed(servers: str, capture: Path, since_ms: int) -> dict[str, Json]:
    """The events of a new capture by id. Before ``since_ms`` there was no group, so that a first commit creates one."""
    printed_by("capture", "--bootstrap-server", servers, "-o", capture)
    words = ("replay", "--from-file", capture, "-o", "jsonl", "--complete-since", since_ms, *_GIVEN)
    events = map(json.loads, printed_by(*words).splitlines())
    return {event["id"]: comparable(event) for event in events if is_in_a_replay(event)}
