"""A steady load of short-lived groups, and the comparison of a job's events with a replay of the log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime

from groupreplay.streaming.base.clock import now_ms
from support.histories.builders import Raw, asked_for, commit, emptied, generation, gone, member, no_offset
from support.job.jobs import (
    Json,
    RunningJob,
    comparable,
    interleaved,
    is_in_a_replay,
    said_of_groups,
    write_log,
)
from support.job.replays import replayed_topics
from support.kafka.waiting import in_background

PAUSE_SECONDS = 0.5
_LATE_SECONDS = 120.0


def short_life(start_ms: int) -> Sequence[Raw]:
    """A group of two generations that is deleted with its offsets."""
    one, two = member("one", [0]), member("two", [1])
    lived = [
        asked_for(at=start_ms),
        generation(1, one, at=start_ms + 1),
        generation(2, one, two, at=start_ms + 5),
    ]
    lived += [commit("t", part, 7, at=start_ms + 10 + part) for part in range(2)]
    ended = [no_offset("t", part, at=start_ms + 30) for part in range(2)]
    return [*lived, emptied(3, at=start_ms + 20), *ended, gone(at=start_ms + 30)]


@contextmanager
def written_load(server: str, partitions: int) -> Iterator[Callable[[], int]]:
    """Writes one life after the other into the log until the block ends; yields how many there were.

    No two loads write the same groups.
    """
    lives, name = [0], f"written-{now_ms()}"

    def write(done: threading.Event) -> None:
        while not done.wait(PAUSE_SECONDS):
            life = {f"{name}-{lives[0]}": short_life(now_ms())}
            # The times inside the records must be possible, too.
            write_log(server, interleaved(life, partitions, 0), partitions)
            lives[0] += 1

    with in_background(write):
        yield lambda: lives[0]


def compare_with_replay(
    job: RunningJob, *flags: object, log_server: str | None = None, since_ms: int = 0
) -> int:
    """Nothing is lost, wrong, or reported under two ids; returns the number of events.

    ``flags`` are more flags of ``replay``, ``log_server`` has the log if the job's topics are elsewhere. Of events
    before ``since_ms`` only those that are there are compared. A condition that was reported late is reported again,
    which no replay does.
    """
    job.wait_caught_up()
    found: tuple[dict[str, Json], dict[str, Json]] = ({}, {})

    def same() -> bool:
        nonlocal found
        replayed = replayed_topics(log_server or job.server, job.topics.probes, "--member-events", *flags)
        found = _comparable(replayed, job.events(), since_ms)
        return found[0].keys() == found[1].keys()

    deadline = time.monotonic() + _LATE_SECONDS
    with suppress(AssertionError):  # what differs is shown below
        while not same() and time.monotonic() < deadline:
            time.sleep(1.0)
    said, wanted = found
    lost = [wanted[name] for name in sorted(wanted.keys() - said.keys())]
    invented = [said[name] for name in sorted(said.keys() - wanted.keys())]
    wrong = [(said[name], wanted[name]) for name in said.keys() & wanted.keys() if said[name] != wanted[name]]
    counts = f"{len(lost)} lost, {len(invented)} invented, {len(wrong)} wrong of {len(wanted)}"
    assert not lost + invented + wrong, f"{counts}: {lost[:2]}, {invented[:2]}, {wrong[:2]}"
    assert wanted
    return len(wanted)


def _comparable(
    replayed: Sequence[Json], events: Mapping[str, Json], since_ms: int
) -> tuple[dict[str, Json], dict[str, Json]]:
    """What the job has reported of groups and what the replay has, by id, as far as both must agree.

    An outage makes the job blind: that is left out on both sides, because it is reported when somebody notices it.
    """
    expected = {event["id"]: comparable(event) for event in replayed if is_in_a_replay(event)}
    said = said_of_groups(events, expected)
    return said, {
        name: one for name, one in expected.items() if name in said or moment_ms(one["time"]) >= since_ms
    }


def moment_ms(text: str) -> int:
    """A time of a CloudEvent."""
    return round(1_000 * datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())
