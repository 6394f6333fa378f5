"""The rules of Prometheus, their tests and the table of alerts are made from the conditions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from generators import alert_tests, alerts
from groupreplay.state.conditions.condition import Alert
from groupreplay.state.conditions.rebalance_stuck import WEDGED, RebalanceStuck
from refresh import DOCS, alert_parts


@pytest.mark.parametrize(("page", "part"), [(page, part) for page, _, part, _ in alert_parts()])
def test_the_files_are_up_to_date(page: str, part: str) -> None:
    """``make docs`` has been run after the last change of an alert."""
    assert part in (DOCS / page).read_text(encoding="utf-8")


def test_an_alert_without_names_has_those_of_its_condition() -> None:
    """Its name, its label and its row follow; a second alert of a condition has a label of its own."""
    (stuck, wedged) = (rule for rule in alerts.OF_GROUPS if rule.section == "rebalance-stuck")
    assert (stuck.name, stuck.labels) == ("ConsumerGroupRebalanceStuck", {"condition": RebalanceStuck.NAME})
    assert stuck.row == "a rebalance does not end (`rebalance.stuck`)"
    assert (wedged.name, wedged.labels) == ("ConsumerGroupRebalanceWedged", {"condition": WEDGED})


def test_two_alerts_of_the_job_divide_a_condition() -> None:
    """The one with a value takes it, and the one without a value leaves it out."""
    assert {rule.name: rule.matchers for rule in alerts.OF_JOB} == {
        "GroupReplayJobBlind": 'condition="job.blind", what!="group_failed"',
        "GroupReplayGroupFailed": 'condition="job.blind", what="group_failed"',
        "GroupReplayJobBehind": 'condition="job.behind"',
    }


def test_no_line_ends_within_a_label() -> None:
    """A description is wrapped between words, and its labels are those of Prometheus."""
    alert = Alert(fires="x", summary="s", description="{group} " * 30)
    text = alerts.rules([replace(alerts.OF_GROUPS[0], alert=alert)])
    assert text.count("{{ $labels.consumergroup }}") == 30
    assert max(map(len, text.partition("description:")[2].splitlines()[1:4])) <= 110


def test_every_alert_has_a_case_with_its_texts() -> None:
    """What promtool expects are the texts of the condition, with the labels filled in."""
    text = " ".join(alert_tests.tests().split())
    for rule in (*alerts.OF_GROUPS, *alerts.OF_JOB):
        labels = {"group": "g", "cluster": "c", "what": "", **rule.labels}
        assert rule.alert.summary.format(**labels) in text
