"""The size of a group's state, whatever one client writes into its group."""

from __future__ import annotations

import pytest

from groupreplay.codecs import MemberMetadata
from groupreplay.state import Context, Group
from groupreplay.streaming.engine.advance import advance
from support.histories.builders import CONTEXT, Raw, generation, member, observed, placed, replay
from support.histories.probed import PROBING, START, probe
from support.histories.raw_records import Raw as Row
from support.histories.raw_records import commit
from support.job.packed import packed_by_key

PARTITIONS = 10_000
#: What brokers accept (``offset.metadata.max.bytes``), in one byte and in four bytes a character.
METADATA = {"ascii": "m" * 4_096, "emoji": "\U0001f600" * 1_024}


@pytest.mark.parametrize(("kind", "most_bytes"), [("ascii", 3_700_000), ("emoji", 11_000_000)])
def test_metadata_of_offsets(kind: str, most_bytes: int) -> None:
    """10 000 partitions with 4 KiB each, 41 MB in the log: what is shuffled and stored has 256 characters of each."""
    rows = [
        Row(0, offset, 1_000, *commit(partition=offset, offset=5, metadata=METADATA[kind]))
        for offset in range(PARTITIONS)
    ]
    assert sum(len(row.value or b"") for row in rows) > 41_000_000
    packed = packed_by_key(rows)[b"g:g"]
    assert sum(map(len, packed)) < most_bytes + 120 * PARTITIONS
    result = advance(b"g:g", None, packed, now_ms=0, recorded_ms=None, context=Context(cluster_id="c"))
    assert result.blob is not None
    assert len(result.blob) < most_bytes
    shown = Group.from_snapshot("g", Context(cluster_id="c"), result.blob).describe()["offsets"]
    assert len(shown) == PARTITIONS
    assert {len(one["metadata"]) for one in shown} == {256}
    assert {one["metadata"][:239] for one in shown} == {METADATA[kind][:239]}


def named(number: int) -> MemberMetadata:
    """A member with names of 30 000 characters."""
    name = f"{number}-" + "x" * 30_000
    return member(name, [0], client_id=name, host=name, instance_id=name)


def test_the_history_of_slots() -> None:
    """400 members with very long names, one after another, leave less in the state than four of their records."""
    history: list[Raw] = [
        generation(number, named(number), at=START + 1_000 * number) for number in range(1, 400)
    ]
    group, _ = replay([*history, generation(400, member("last", [0]), at=START + 400_000)], CONTEXT)
    # Each slot has four texts and the places of its takeovers.
    assert len(group.snapshot()) < 400 * 4 * 300 + 100_000


def test_long_names_are_different_slots() -> None:
    """Names that differ only behind the cut are two members, and a member that stays is the same one."""
    one, other = (member("x" * 30_000 + end, [0], client_id="x" * 30_000 + end) for end in "ab")
    _, events = replay(
        [generation(1, one, at=1_000), generation(2, other, at=2_000), generation(3, other, at=3_000)]
    )
    assert [event.fact.NAME for event in events if event.fact.NAME.startswith("member.")] == [
        "member.joined",
        "member.left",
        "member.joined",
    ]


def test_answers_that_wait() -> None:
    """Answers with long names that wait for the log keep the first and the newest ones, within a megabyte."""
    names = [f"{number}-" + "x" * 30_000 for number in range(20)]
    probes = [probe(START + 10_000 * at, "PreparingRebalance", *names[at % 2 :]) for at in range(1, 300)]
    group = Group("g", PROBING)
    seen = observed(placed([generation(1, member("a", [0]), at=START)]))
    group.apply(type(seen)(items=seen.items, seen_to=seen.seen_to, probes=probes), 0)
    assert len(group.snapshot()) < 4 * 2**20
    # The rebalance began with the first answer, and is seen up to the last one.
    events = group.expire(START + 3_000_000)
    assert [event.time_ms for event in events if event.fact.NAME == "rebalance.started"] == [START + 10_000]
