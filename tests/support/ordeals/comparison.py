"""What the job said, held against a replay of the two topics that it read."""

from __future__ import annotations

import json
from contextlib import suppress

from groupreplay.state.phrases import timestamp
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.contract.messages import JOB_KEY
from support.job.jobs import JobTopics, Json, comparable, is_in_a_replay, read_topic, said_of_groups
from support.job.replays import replayed_topics
from support.ordeals.churn import GROUPS


def replayed(job: JobTopics) -> dict[str, Json]:
    """What ``replay`` says of the groups, from the two topics, by id.

    What it says about the job is left out: an outage of brokers is reported when it is noticed, by whoever notices it.
    Incidents are in no replay: ``run`` finds them, by what it knew at each moment.
    The job knows that a first commit after its first start creates a group; a replay, whose log may have been compacted
    since, must be told so.
    """
    events = replayed_topics(
        job.server, job.topics.probes, "--member-events", "--complete-since", first_start_ms(job)
    )
    return {event["id"]: comparable(event) for event in events if is_in_a_replay(event)}


def first_start_ms(job: JobTopics) -> int:
    """When the first of the jobs that wrote to its topics was started for the first time."""
    values = [one.value for one in read_topic(job.server, job.topics.job) if one.key == JOB_KEY and one.value]
    return min(int(json.loads(value)["first_start_ms"]) for value in values)


def settled(job: JobTopics) -> tuple[dict[str, Json], dict[str, Json]]:
    """What the job said and what the replay says, once nothing happens any more; they differ if that takes too long.

    A member that could not take its leave, because the broker was away, is thrown out much later. What happens after
    the begin of a replay, which may take minutes, is in no replay and is left out.
    """
    expected: dict[str, Json] = {}
    said: dict[str, Json] = {}
    begun: list[str] = []
    job.wait_caught_up()

    def same() -> bool:
        begun[:] = [timestamp(now_ms())]
        expected.clear()
        expected.update(replayed(job))
        said.clear()
        said.update(said_of_groups(job.events(), expected))
        return said.keys() == expected.keys()

    with suppress(AssertionError):  # what differs is shown by the caller
        job.wait_until(same)
    # Once more: two events with one id are an error of their own.
    found = said_of_groups(job.events(), expected).items()
    return {name: event for name, event in found if name in expected or event["time"] < begun[0]}, expected


def differences(said: dict[str, Json], expected: dict[str, Json]) -> list[str]:
    """A line for each event that is missing, too many, or another one than in the replay."""
    return [
        f"{kind} {name}: said {said.get(name)}, expected {expected.get(name)}"
        for kind, names in (
            ("lost", expected.keys() - said.keys()),
            ("too many", said.keys() - expected.keys()),
            ("wrong", {name for name in said.keys() & expected.keys() if said[name] != expected[name]}),
        )
        for name in sorted(names)
    ]


def compare(job: JobTopics) -> None:
    """The events of the job are those of the replay."""
    said, expected = settled(job)
    assert not (different := differences(said, expected)), "\n".join(different)
    names = {event["data"]["group_id"] for event in expected.values()}
    assert any(name.startswith("written") for name in names), "nothing was written into the log"
    assert names & GROUPS.keys(), "no group has lived"
    repeats = len(read_topic(job.server, job.topics.events)) - len(job.events())
    print(f"{len(expected)} events of {len(names)} groups, {repeats} said twice")  # noqa: T201
