"""Documents of groups as the exporter keeps them."""

from __future__ import annotations

import msgspec

from groupreplay.state.conditions.tracker import group_hash
from groupreplay.streaming.sinks.held_conditions import Holding
from groupreplay.streaming.sinks.known_groups import KnownGroup, group_label, known_group
from support.job.sink_messages import CLUSTER, HOSTILE_IDS, SINCE_MS, document, stable, stuck


def test_a_document() -> None:
    """The fields that become metrics; the generation of a newer kind of group is its epoch."""
    value = document(stuck()[0], labels={"team": "pay"})
    expected = KnownGroup(
        label="g",
        cluster_id=CLUSTER,
        type="classic",
        state="PreparingRebalance",
        generation=5,
        since_ms=SINCE_MS,
        member_count=2,
        next_expiry_ms=None,
        conditions=tuple(
            Holding(
                name,
                severity,
                condition_id=f"{group_hash('g')}-{name}-{SINCE_MS}",
                since_ms=SINCE_MS,
                runbook=f"docs/runbook.md#{name.replace('.', '-')}",
            )
            for name, severity in (("rebalance.slow", "WARN"), ("rebalance.stuck", "ERROR"))
        ),
        labels={"team": "pay"},
    )
    assert known_group(value) == expected
    newer = msgspec.json.encode({**msgspec.json.decode(value), "generation": None, "group_epoch": 9})
    assert known_group(newer) == msgspec.structs.replace(expected, generation=9)
    assert known_group(b"no document") is None


def test_the_worst_condition() -> None:
    """ERROR before WARN before every other severity; None without a condition."""
    group = known_group(document(stable()[0]))
    assert group is not None
    held = [Holding("a", "INFO"), Holding("b", "WARN"), Holding("c", "ERROR")]
    worst = [msgspec.structs.replace(group, conditions=tuple(held[:count])).worst for count in range(4)]
    assert worst == [None, "INFO", "WARN", "ERROR"]


def test_what_groups_have_in_common_is_kept_once() -> None:
    """Labels, conditions and the texts that many groups share are the same objects."""
    one, two = (known_group(document(stuck()[0], name, {"team": "pay"})) for name in ("a", "b"))
    assert one is not None
    assert two is not None
    for name in ("cluster_id", "type", "state", "conditions", "labels"):
        assert getattr(one, name) is getattr(two, name), name


def test_a_long_id_is_not_kept() -> None:
    """An id of 30 000 characters takes as much as its label."""
    group = known_group(document(stable()[0], "x" * 30_000))
    assert group is not None
    assert group.label == group_label("x" * 30_000)
    assert len(group.label) == 273


def test_ordinary_ids_are_exact() -> None:
    """Whatever a label can hold and a screen can show stays, so that series join with other exporters'."""
    ordinary = ("pay-1", "team.app_2", 'quote"s', "back\\slash", "{curly}=", "gruppe-ä-グループ", "x" * 256)
    assert [group_label(name) for name in ordinary] == list(ordinary)


def test_hostile_ids() -> None:
    """Short, one line, without control characters, and never two the same."""
    labels = [group_label(name) for name in HOSTILE_IDS]
    assert len(set(labels)) == len(HOSTILE_IDS)
    assert [label for label in labels if not label.isprintable() or len(label) > 273 or not label] == []
    assert group_label("line\nbreak") == r"line\u{a}break#" + "697affca60d5d0dc"
