"""The table of metrics, and the sheet that a scrape is written on."""

from __future__ import annotations

import math
import re

import pytest

from groupreplay.app.exporter.metric_catalog import METERS, Kind, Sheet, metrics_table

GAUGE, COUNTER, KNOWN = (
    "kafka_consumergroup_members",
    "kafka_consumergroup_rebalances_total",
    "groupreplay_job_up",
)


def samples(sheet: Sheet) -> dict[str, list[tuple[dict[str, str], float]]]:
    """What was written, by metric."""
    return {
        metric.name: [(sample.labels, sample.value) for sample in metric.samples]
        for metric in sheet.metrics()
    }


def test_names_follow_the_conventions() -> None:
    """Each once, base units, ``_total`` for counters and for nothing else; members and hosts are no labels."""
    names = [meter.name for meter in METERS]
    assert len(names) == len(set(names))
    for meter in METERS:
        assert re.fullmatch(r"(kafka_consumergroup|groupreplay)(_[a-z]+)+", meter.name)
        assert meter.name.endswith("_total") == (meter.kind is Kind.COUNTER), meter.name
        assert not {"member", "client", "client_id", "host"} & set(meter.labels)
        assert meter.text.endswith(".")


def test_only_what_was_measured_is_shown() -> None:
    """In the order of the table; the larger of two equal samples."""
    sheet = Sheet(blind=False, groups_unknown=False)
    sheet.add(KNOWN, 1, cluster="c")
    sheet.add(GAUGE, 2, cluster="c", consumergroup="g")
    sheet.add(COUNTER, 5, cluster="c", consumergroup="g")
    sheet.add(COUNTER, 0, cluster="c", consumergroup="g")
    group = {"cluster": "c", "consumergroup": "g"}
    assert samples(sheet) == {
        "kafka_consumergroup_members": [(group, 2)],
        "kafka_consumergroup_rebalances": [(group, 5)],
        "groupreplay_job_up": [({"cluster": "c"}, 1)],
    }


def test_nothing_is_claimed_while_the_job_is_silent() -> None:
    """Gauges are no number then; counts stay what they were, and what is known without the job stays."""
    sheet = Sheet(blind=True, groups_unknown=True)
    for name in (GAUGE, COUNTER, KNOWN):
        sheet.add(name, 1)
        sheet.add(name, 0)
    values = {name: one[0][1] for name, one in samples(sheet).items()}
    assert math.isnan(values.pop("kafka_consumergroup_members"))
    assert values == {"kafka_consumergroup_rebalances": 1, "groupreplay_job_up": 1}


def test_groups_are_unknown_while_the_query_is_stopped() -> None:
    """Their gauges are no number then; those of the job itself have values."""
    sheet = Sheet(blind=False, groups_unknown=True)
    for name in (GAUGE, COUNTER, KNOWN, "groupreplay_groups", "groupreplay_condition"):
        sheet.add(name, 1)
    values = {name: one[0][1] for name, one in samples(sheet).items()}
    unknown = {name for name, value in values.items() if math.isnan(value)}
    assert unknown == {"kafka_consumergroup_members", "groupreplay_groups"}


def test_a_metric_that_is_not_in_the_table() -> None:
    """There is none."""
    with pytest.raises(KeyError):
        Sheet(blind=False, groups_unknown=False).add("groupreplay_other", 1)


def test_the_table_of_the_docs() -> None:
    """A line for each, with its kind and labels."""
    lines = metrics_table().splitlines()
    assert len(lines) == len(METERS) + 2
    assert (
        lines[3]
        == "| `kafka_consumergroup_members` | gauge | `cluster`, `consumergroup` | Members of the group. |"
    )
