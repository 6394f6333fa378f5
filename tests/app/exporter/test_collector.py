"""The numbers that a snapshot of the topics comes to."""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec
import pytest
from prometheus_client import generate_latest

from groupreplay.app.exporter.collector import STATES, ShownGroups, measure, policy_labels, shown_groups
from groupreplay.app.exporter.feed import Limits
from groupreplay.app.exporter.metric_catalog import METERS
from groupreplay.state.conditions.tracker import group_hash
from groupreplay.streaming.contract.messages import CONDITIONS_KEY, JOB_KEY
from groupreplay.streaming.engine.packing.key_columns import RECORD_TYPES
from groupreplay.streaming.sinks.known_groups import DAY_MS
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot
from groupreplay.version import __version__
from support.histories.probed import START
from support.job.sink_messages import (
    CLUSTER,
    HOSTILE_IDS,
    SINCE_MS,
    counted,
    document,
    events,
    expired,
    job_document,
    stable,
    stuck,
)
from support.tools.prometheus_tools import promtool

NOW = SINCE_MS + 200_000
LIMITS = Limits()
Labels = tuple[tuple[str, str], ...]
HASH = group_hash("g")


def snapshot(*, heartbeat_ms: int | None = NOW) -> TopicsSnapshot:
    """A group at rest and one that is stuck, their events, and the job."""
    made = TopicsSnapshot()
    for name, (group, emitted) in (("calm", stable()), ("g", stuck())):
        made.take_state(name.encode(), document(group, name))
        counted(events(emitted, name), into=made)
    if heartbeat_ms is not None:
        made.take_job(JOB_KEY, job_document(heartbeat_ms))
    return made


def samples(
    seen: TopicsSnapshot | None, now_ms: int = NOW, limits: Limits = LIMITS
) -> dict[str, dict[Any, float]]:
    """Every sample, by the name of its metric and its labels without those that all have."""
    found: dict[str, dict[Any, float]] = {}
    for metric in measure(seen, now_ms, limits):
        for sample in metric.samples:
            labels = {name: text for name, text in sample.labels.items() if name != "cluster"}
            found.setdefault(sample.name, {})[" ".join(labels.values())] = sample.value
    return found


def test_groups() -> None:
    """State, members, generation, how long it rebalances, when it last did, what was counted, what holds."""
    found = samples(snapshot())
    assert {name: one for name, one in found.items() if name.startswith("kafka_")} == {
        "kafka_consumergroup_group_state": {"calm": 3, "g": 1},
        "kafka_consumergroup_members": {"calm": 2, "g": 2},
        "kafka_consumergroup_generation_total": {"calm": 5, "g": 5},
        "kafka_consumergroup_rebalances_total": {"calm": 2, "g": 1},
        "kafka_consumergroup_rebalance_in_progress_seconds": {"calm": 0, "g": 200},
        "kafka_consumergroup_rebalance_last_timestamp_seconds": {"calm": START / 1000, "g": START / 1000},
        "kafka_consumergroup_offsets_expired_total": {"calm": 0, "g": 0},
        "kafka_consumergroup_members_lost_total": {"calm": 0, "g": 0},
        "kafka_consumergroup_condition": {"g rebalance.slow WARN": 1, "g rebalance.stuck ERROR": 1},
        "kafka_consumergroup_condition_since_timestamp_seconds": {
            f"g rebalance.slow WARN {HASH}-rebalance.slow-{SINCE_MS}": SINCE_MS / 1000,
            f"g rebalance.stuck ERROR {HASH}-rebalance.stuck-{SINCE_MS}": SINCE_MS / 1000,
        },
        "kafka_consumergroup_condition_info": {
            f"g {HASH}-rebalance.slow-{SINCE_MS}  docs/runbook.md#rebalance-slow": 1,
            f"g {HASH}-rebalance.stuck-{SINCE_MS}  docs/runbook.md#rebalance-stuck": 1,
        },
    }


def test_the_job() -> None:
    """All metrics of the fields of its document."""
    found = samples(snapshot(), NOW + 4_000)
    events_ = found.pop("groupreplay_events_total")
    assert {name: one for name, one in found.items() if name.startswith("groupreplay_")} == {
        "groupreplay_groups": {"classic Stable": 1, "classic PreparingRebalance": 1},
        "groupreplay_job_up": {"": 1},
        "groupreplay_heartbeat_age_seconds": {"": 4},
        "groupreplay_start_timestamp_seconds": {"": 0.002},
        "groupreplay_phase": {"starting": 0, "catching_up": 0, "caught_up": 1, "waiting": 0, "stopped": 0},
        "groupreplay_query_up": {"": 1},
        "groupreplay_once": {"": 0},
        "groupreplay_caught_up_timestamp_seconds": {"": (NOW - 1_000) / 1000},
        "groupreplay_lag_offsets": {"0": 2},
        "groupreplay_batch_seconds": {"": 1.5},
        "groupreplay_batch_rows": {"": 5},
        "groupreplay_batch_phase_seconds": {"addBatch": 1.25},
        "groupreplay_state_rows_written": {"": 6},
        "groupreplay_state_memory_bytes": {"": 4096},
        "groupreplay_state_task_seconds": {"update": 0.5, "timer": 0.25, "commit": 0},
        "groupreplay_batches_total": {"": 1},
        "groupreplay_records_total": {
            **dict.fromkeys(RECORD_TYPES, 0),
            "OffsetCommit": 4,
            "GroupMetadata": 1,
        },
        "groupreplay_probes_left_out_total": {"unreadable": 0, "misdated": 0},
        "groupreplay_clock_off_seconds": {"": 1.5},
        "groupreplay_written_total": {"events": 0, "states": 0, "dead_letters": 0, "job": 0},
        "groupreplay_dead_letters_total": {"malformed": 0, "skipped": 0},
        "groupreplay_corrected_records_total": {"partial": 0, "timestamp": 0},
        "groupreplay_unmissed_expired_total": {"": 0},
        "groupreplay_quarantined_total": {"": 0},
        "groupreplay_state_rows": {"": 7},
        "groupreplay_restarts_total": {"": 0},
        "groupreplay_rules_changes_total": {"": 0},
        "groupreplay_rules_refused": {"": 0},
        "groupreplay_prober_round_timestamp_seconds": {"": (NOW - 2_000) / 1000},
        "groupreplay_prober_brokers": {"yes": 1, "no": 1},
        "groupreplay_prober_groups": {"": 1},
        "groupreplay_prober_restarts_total": {"": 0},
        "groupreplay_build_info": {f"exporter {__version__}": 1, f"job {__version__}": 1},
        "groupreplay_exporter_ready": {"": 1},
        "groupreplay_exporter_topics_up": {"": 1},
        "groupreplay_exporter_groups_left_out": {"": 0},
        "groupreplay_exporter_conditions_left_out": {"": 0},
        "groupreplay_exporter_counters_forgotten_total": {"": 0},
        "groupreplay_exporter_unreadable_total": {"": 0},
    }
    assert {name: count for name, count in events_.items() if count} == {
        "rebalance.completed INFO": 3,
        "rebalance.started INFO": 1,
        "rebalance.slow WARN": 1,
        "rebalance.stuck ERROR": 1,
        "member.joined INFO": 1,
    }
    assert events_["offsets.expiring WARN"] == 0


def test_before_anything_was_read() -> None:
    """The exporter reports that it is not ready, and nothing else."""
    assert samples(None) == {
        "groupreplay_build_info": {f"exporter {__version__}": 1},
        "groupreplay_exporter_ready": {"": 0},
        "groupreplay_exporter_topics_up": {"": 1},
    }


def test_two_clocks_are_one_series() -> None:
    """The job's and a broker's may both be off; the same series twice would fail the whole scrape."""
    seen = snapshot()
    clock = {"condition": "job.blind", "severity": "ERROR", "what": "clock"}
    seen.take_job(CONDITIONS_KEY, msgspec.json.encode({"conditions": [clock, clock]}))
    page = [sample for metric in measure(seen, NOW, LIMITS) for sample in metric.samples]
    found = [one.value for one in page if one.name == "groupreplay_condition"]
    assert found == [1]


def test_groups_between_single_runs() -> None:
    """Gauges keep their values, so that an alert on a group does not end when the run does."""
    seen = snapshot()
    before = samples(seen)
    seen.take_job(JOB_KEY, job_document(NOW, once=True, phase="stopped", caught_up_ms=NOW))
    after = samples(seen, NOW + 3_600_000)
    assert after["groupreplay_once"] == {"": 1}
    name = "kafka_consumergroup_condition"
    assert after[name] == before[name] == {"g rebalance.slow WARN": 1, "g rebalance.stuck ERROR": 1}


@pytest.mark.parametrize("heartbeat_ms", [NOW - 31_000, None])
def test_a_silent_job(heartbeat_ms: int | None) -> None:
    """No gauge has a value, not even a good one; counters and the absence of the job are reported."""
    found = samples(snapshot(heartbeat_ms=heartbeat_ms))
    gauges = [f"kafka_consumergroup_{name}" for name in ("group_state", "members", "condition")]
    for name in gauges:
        assert found[name]
        assert all(math.isnan(value) for value in found[name].values()), name
    assert found["kafka_consumergroup_rebalances_total"] == {"calm": 2, "g": 1}
    assert found.get("groupreplay_job_up") == (None if heartbeat_ms is None else {"": 0})


def test_a_condition_that_is_over() -> None:
    """It is 0 for the rest of the day, with the same labels, and then it is gone."""
    seen = snapshot()
    group, _ = stable()
    seen.take_state(b"g", document(group, "g"))
    over = {"g rebalance.slow WARN": 0, "g rebalance.stuck ERROR": 0}
    assert samples(seen)["kafka_consumergroup_condition"] == over
    seen.take_job(JOB_KEY, job_document(DAY_MS))
    assert "kafka_consumergroup_condition" not in samples(seen, DAY_MS)


def test_wedged_is_a_condition_of_its_own() -> None:
    """So that an alert can tell what will not end by itself."""
    group, emitted = stuck(for_ms=700_000)
    seen = counted(events(emitted))
    seen.take_state(b"g", document(group, labels={"team": "pay"}))
    seen.take_job(JOB_KEY, job_document(SINCE_MS + 700_000))
    assert samples(seen, SINCE_MS + 700_000)["kafka_consumergroup_condition"] == {
        "g rebalance.slow WARN pay": 1,
        "g rebalance.stuck ERROR pay": 1,
        "g rebalance.wedged ERROR pay": 1,
    }


def test_what_a_group_lost_outlives_it() -> None:
    """The group is gone with its offsets; the count goes on from the 0 that was there before."""
    seen = TopicsSnapshot()
    seen.take_job(JOB_KEY, job_document(NOW))
    group, _ = stable()
    seen.take_state(b"g", document(group))
    before = samples(seen)["kafka_consumergroup_offsets_expired_total"]
    counted(events([expired(3)]), NOW, seen)
    seen.take_state(b"g", None)
    labels = [
        sample.labels
        for metric in measure(seen, NOW, LIMITS)
        for sample in metric.samples
        if sample.value == 3
    ]
    assert (before, labels) == ({"g": 0}, [{"cluster": CLUSTER, "consumergroup": "g"}])


def crowd() -> TopicsSnapshot:
    """A group of every importance; the letters of their ids are not in the order of it."""
    seen = TopicsSnapshot()
    seen.take_job(JOB_KEY, job_document(NOW))
    (calm, emitted), (ill, fired) = stable(), stuck()
    plain = {name: document(calm, name) for name in ("d", "b", "c")}
    alone = {name: changed(plain["b"], group_id=name, member_count=0) for name in ("a", "e", "f")}
    warned = {"condition": "rebalance.slow", "severity": "WARN"}
    trouble = {name: document(ill, name) for name in ("z", "y")}
    for name, value in {**plain, **alone, **trouble}.items():
        seen.take_state(name.encode(), value)
    seen.take_state(b"w", changed(plain["b"], group_id="w", conditions=[warned]))
    # "e" and "gone" rebalanced, "over" had a condition, "lost" lost offsets; the last three are deleted by now.
    counted([*events(emitted, "e"), *events(emitted, "gone")], NOW, seen)
    counted([*events(fired, "over"), *events([expired(2)], "lost")], NOW, seen)
    return seen


def changed(value: bytes, **fields: Any) -> bytes:
    """A document with other values."""
    return msgspec.json.encode({**msgspec.json.decode(value), **fields})


def test_the_most_important_groups_are_shown() -> None:
    """Errors, then warnings and lost offsets, other conditions, members, rebalances, the rest; each part by id."""
    everything = ["y", "z", "lost", "w", "over", "b", "c", "d", "e", "gone", "a", "f"]
    assert shown_groups(crowd(), 100) == ShownGroups(everything, 0, 0)
    for limit, ill in ((11, 0), (4, 0), (3, 1), (1, 2), (0, 3)):
        assert shown_groups(crowd(), limit) == ShownGroups(everything[:limit], len(everything) - limit, ill)


@pytest.mark.parametrize("limit", [0, 1, 3, 7, 11, 100])
def test_every_series_is_under_the_limit(limit: int) -> None:
    """No metric has other groups than those that are shown; the number of the others is a metric, too."""
    found = measure(crowd(), NOW, Limits(max_groups=limit))
    shown = shown_groups(crowd(), limit)
    by_metric = {
        metric.name: {
            sample.labels["consumergroup"] for sample in metric.samples if "consumergroup" in sample.labels
        }
        for metric in found
    }
    assert {name: groups - set(shown.labels) for name, groups in by_metric.items() if groups} == {
        name: set() for name, groups in by_metric.items() if groups
    }
    # Each has a series at all.
    assert set().union(*by_metric.values()) == set(shown.labels)
    numbers = samples(crowd(), limits=Limits(max_groups=limit))
    assert numbers["groupreplay_exporter_groups_left_out"] == {"": shown.left_out}
    assert numbers["groupreplay_exporter_conditions_left_out"] == {"": shown.ill}
    assert sum(numbers["groupreplay_groups"].values()) == 9


def test_counts_of_groups_that_are_gone() -> None:
    """They stay what they were, without the gauges that only a group has that exists."""
    found = samples(crowd())
    assert found["kafka_consumergroup_rebalances_total"]["gone"] == 2
    assert found["kafka_consumergroup_offsets_expired_total"]["lost"] == 2
    assert {"gone", "lost", "over"} & set(found["kafka_consumergroup_members"]) == set()


def test_a_census_of_absurd_states() -> None:
    """Types and states beyond 200 are added up, and every group is counted."""
    seen, (calm, _) = TopicsSnapshot(), stable()
    for number in range(300):
        value = changed(document(calm, f"g{number}"), state=f"state {number}")
        seen.take_state(f"g{number}".encode(), value)
    census = samples(seen)["groupreplay_groups"]
    assert len(census) == 201
    assert math.isnan(census["other other"])
    seen.take_job(JOB_KEY, job_document(NOW))
    assert samples(seen)["groupreplay_groups"]["other other"] == 100


def test_conditions_of_the_job() -> None:
    """With the reason, which says what to do first."""
    seen = snapshot()
    blind = {"condition": "job.blind", "severity": "ERROR", "what": "no_rights"}
    holding = [blind, {"condition": "job.behind", "severity": "ERROR"}]
    seen.take_job(CONDITIONS_KEY, msgspec.json.encode({"conditions": holding}))
    assert samples(seen)["groupreplay_condition"] == {"job.blind ERROR no_rights": 1, "job.behind ERROR ": 1}


def test_records_that_could_not_be_used() -> None:
    """Added up over the partitions, by kind; those with a wrong time were used and are no dead letters."""
    seen = snapshot()
    for partition, records in ((1, 4), (2, 5)):
        counts = [
            {"kind": "malformed", "key_type": None, "records": records},
            {"kind": "timestamp", "key_type": 1, "records": 100 * records},
        ]
        tally = {"bad_records": counts}
        seen.take_job(f"\0__consumer_offsets-{partition}".encode(), msgspec.json.encode(tally))
    measured = samples(seen)
    assert measured["groupreplay_dead_letters_total"] == {"malformed": 9, "skipped": 0}
    assert measured["groupreplay_corrected_records_total"] == {"partial": 0, "timestamp": 900}


@pytest.mark.parametrize("state", [*STATES, "SomethingNew"])
def test_states(state: str) -> None:
    """Each has its number; one of a later Kafka is unknown, not an error."""
    group, _ = stable()
    seen = snapshot()
    seen.take_state(b"g", msgspec.json.encode({**msgspec.json.decode(document(group)), "state": state}))
    assert samples(seen)["kafka_consumergroup_group_state"]["g"] == STATES.get(state, 0)


#: Ids as strangers may choose them.


def test_what_is_written_can_be_read() -> None:
    """The whole scrape with hostile ids and labels, by Prometheus's own parser, without a complaint."""
    seen = snapshot()
    group, emitted = stuck(for_ms=700_000)
    for name in HOSTILE_IDS:
        labels = {name[:300]: name[:300], "team": "pay"}
        seen.take_state(name.encode(), document(group, name, labels))
        counted([*events(emitted, name, labels=labels), *events([expired(2)], name)], into=seen)

    class Scrape:
        def collect(self) -> Any:
            return measure(seen, NOW, LIMITS)

    text = generate_latest(Scrape())  # type: ignore[arg-type]
    lines = text.decode().split("\n")
    assert all(re.match(r"# (HELP|TYPE) |[a-z_]+(\{.*\})? \S+$|$", line) for line in lines)
    assert promtool("check", "metrics", stdin=text) == ""


def test_labels_of_the_policy() -> None:
    """Under names that Prometheus takes; ours are never overwritten."""
    assert policy_labels(
        {"team": "pay", "on-call": "a\nb", "cluster": "other", "9to5": "x", "on_call": "y"}
    ) == {"team": "pay", "on_call": r"a\u{a}b", "label_cluster": "other", "label_9to5": "x"}


@pytest.mark.parametrize("name", ["name", "value", "self", "text", "what", "state"])
def test_a_label_of_the_policy_may_have_any_name(name: str) -> None:
    """Also one that a function of the exporter uses itself: it is on the conditions, and the scrape goes on."""
    seen = snapshot()
    seen.take_state(b"g", document(stuck()[0], "g", {name: "x"}))
    found = [
        metric for metric in measure(seen, NOW, LIMITS) if metric.name == "kafka_consumergroup_condition"
    ]
    assert [sample.labels[name] for sample in found[0].samples if sample.value] == ["x", "x"]


def test_every_sample_has_the_labels_of_the_table() -> None:
    """And no others, but for those of the policy on conditions."""
    declared = {meter.name: set(meter.labels) for meter in METERS}
    for metric in measure(snapshot(), NOW, LIMITS):
        for sample in metric.samples:
            assert set(sample.labels) == declared[sample.name], sample.name


def test_the_address_of_the_pages() -> None:
    """A metric has it for the alerts, by cluster; without the flag there is none."""
    name, address = "groupreplay_pages_info", "https://groups.example.com"
    assert samples(snapshot(), limits=Limits(public_url=address))[name] == {address: 1}
    assert name not in samples(snapshot())
