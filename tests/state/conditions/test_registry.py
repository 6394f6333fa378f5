"""The one tuple of conditions: where each module is, and how thresholds reach its detector."""

from __future__ import annotations

import re

import pytest

from groupreplay.state.conditions.agenda import group_detectors
from groupreplay.state.conditions.detection import Dependency, Detector, GroupDetector, JobDetector
from groupreplay.state.conditions.rebalance_slow import RebalanceSlowDetector
from groupreplay.state.conditions.rebalance_stuck import RebalanceStuckDetector
from groupreplay.state.conditions.registry import CONDITIONS, DETECTORS, KINDS, OF_THE_JOB, job_detectors
from groupreplay.state.events.event import Severity
from groupreplay.state.policy.rules import GroupRule, Policy
from support.paths import PACKAGE as SOURCES

PACKAGE = "groupreplay.state.conditions"


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda one: one.name)
def test_the_path_is_the_name(detector: Detector) -> None:
    """``rebalance.stuck`` is in ``rebalance_stuck.py``, event and detector alike."""
    module = f"{PACKAGE}.{detector.name.replace('.', '_')}"
    assert (detector.CONDITION.__module__, type(detector).__module__) == (module, module)


def test_every_module_is_registered() -> None:
    """Each module with a detector is in the tuple, once."""
    paths = (SOURCES / "state" / "conditions").glob("*.py")
    with_detectors = {
        path.stem
        for path in paths
        if re.search(r"^class \w+\((Group|Job)Detector\):", path.read_text(), re.M)
    }
    assert with_detectors == {detector.name.replace(".", "_") for detector in DETECTORS}
    assert len({detector.name for detector in DETECTORS}) == len(DETECTORS)


def test_dependencies() -> None:
    """Conditions of groups and of the job depend on different changes; these can end with a commit."""
    of_the_job = {Dependency.PROBER_ROUNDS, Dependency.HEARTBEATS}
    for one in DETECTORS:
        assert one.DEPENDS_ON
        assert isinstance(one, JobDetector) == (of_the_job >= one.DEPENDS_ON)
        assert isinstance(one, GroupDetector) == one.DEPENDS_ON.isdisjoint(of_the_job)
    assert group_detectors(Policy().of("g")).on_commits == {
        "rebalance.suspected",
        "owner.silent",
        "partition.poison",
        "commits.paused",
        "offsets.expiring",
        "transaction.hanging",
    }


def test_every_condition_of_a_group_has_its_words() -> None:
    """A verdict says what it was; one that may be more than INFO has an alert; what implies it is a condition."""
    for kind in CONDITIONS:
        assert bool(kind.MEANING) == bool(kind.SHORT) == (kind.NAME not in OF_THE_JOB)
        assert kind.ALERTS or kind.SEVERITY is Severity.INFO
        assert kind.IMPLIED_BY in {"", *KINDS}


def by_name(policy: Policy, group_id: str) -> dict[str, Detector]:
    """The detectors of a group."""
    found = group_detectors(policy.of(group_id))
    return {detector.name: detector for detector in found.detectors}


def test_thresholds_of_a_group() -> None:
    """Those of its rules over those for all groups over the defaults."""
    policy = Policy(
        thresholds={"rebalance.slow": {"least_ms": 1, "beyond_session_ms": 2}},
        groups=(GroupRule(groups="*-test", thresholds={"rebalance.slow": {"least_ms": 3}}),),
    )
    own = by_name(policy, "pay-test")["rebalance.slow"]
    assert own == RebalanceSlowDetector(least_ms=3, beyond_session_ms=2)
    other = by_name(policy, "pay")["rebalance.slow"]
    assert other == RebalanceSlowDetector(least_ms=1, beyond_session_ms=2)
    defaults = tuple(one for one in DETECTORS if isinstance(one, GroupDetector))
    assert group_detectors(Policy().of("pay")).detectors == defaults


def test_thresholds_of_a_part_reach_the_whole() -> None:
    """The stuck rule needs the bound of the slow rule: that of the same group."""
    policy = Policy(groups=(GroupRule(groups="g", thresholds={"rebalance.slow": {"threshold_ms": 7}}),))
    slow = RebalanceSlowDetector(threshold_ms=7)
    assert by_name(policy, "g")["rebalance.stuck"] == RebalanceStuckDetector(slow=slow)


def test_thresholds_of_the_job() -> None:
    """They come from the policy, not from rules for groups."""
    thresholds = {"job.behind": {"lag_ms": 5}, "rebalance.slow": {"least_ms": 1}}
    behind, blind = job_detectors(thresholds)
    assert (behind.name, behind.lag_ms, blind.name) == ("job.behind", 5, "job.blind")  # type: ignore[attr-defined]


def test_thresholds_have_types() -> None:
    """What may be set, and as what: never another detector."""
    for one in DETECTORS:
        assert set(one.thresholds().values()) <= {int, int | None, float, float | None, bool}


def test_detectors_are_cached_by_rules() -> None:
    """They are made once for all groups that the same rules match."""
    policy = Policy()
    assert group_detectors(policy.of("a")) is group_detectors(policy.of("b"))


def test_first_words_are_no_settings() -> None:
    """In rules.toml ``[[group]]`` and ``runbook`` stand beside the tables of conditions."""
    first_words = {one.name.partition(".")[0] for one in DETECTORS}
    assert first_words.isdisjoint(
        {"group", "runbook", "match", "ignore", "severity_cap", "matters", "labels"}
    )
