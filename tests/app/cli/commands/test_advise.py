"""``groupreplay advise`` on captures: text, JSON, labels, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.job.captures import invoke, printed_by, simulated_capture

GROUP = "rolling-restart-3-dynamic-eager-000000"
TEXT = """\
from 2026-01-01 00:14:58.830 (UTC), counted back from the last record, 2026-01-01 00:59:58.830
From 2026-01-01 00:14:58.830 to 2026-01-01 01:00:00.001 (UTC) 4 deployments of 2 groups made 24 rebalances and stood
still for about 45.0 s to 59.0 s (by the records 6.7 s to 2 min 16 s). The log does not reach back to the begin of as
long a time before.
TEAM\tDEPLOYMENTS\t#GROUPS\tREBALANCES\tSTOOD-STILL\tRECORDS\tBEFORE\tSTOOD-STILL-BEFORE
blue\t2\t1\t12\tabout 20.3 s to 30.7 s (by the records 2.2 s to 1 min 11 s)\t-\t-\t-
-\t2\t1\t12\tabout 21.9 s to 31.2 s (by the records 4.5 s to 1 min 5 s)\t-\t-\t-

"""
FINDINGS = f"""\
{GROUP}: classic group, 2026-01-01 00:14:58.830 to 2026-01-01 01:00:00.000 (UTC)
  1. static-membership: 12 of 12 rebalances follow from 6 restarts of {GROUP}-0,
     {GROUP}-1, {GROUP}-2, each back within the session of
     45.0 s.
      Set      group.instance.id: one name per process that stays when it restarts, such as that of a StatefulSet's pod
      Saves    12 rebalances
      Saves    about 21.9 s to 31.2 s of standstill (by the records 4.5 s to 1 min 5 s)
      Assumed  heartbeat interval 3.0 s
      Unless   docs/advice.md#static-membership
  2. incremental-rebalances: 12 rebalances with the eager assignor range stopped partitions of members that stayed 60
     times; 24 times the partition kept its owner.
      Set      partition.assignment.strategy: cooperative-sticky, in two rolling restarts; or group.protocol=consumer
      Saves    about 4.1 s to 5.9 s of standstill, added up over partitions (by the records at most 43.8 s, or up to 1
               min 53 s more)
      Saves    about 48 stops of partitions (by the records 24 to 60)
      Assumed  heartbeat interval 3.0 s
      Unless   docs/advice.md#incremental-rebalances
      Unsaid   the history is too short for offsets-at-risk, two-waves, unused-group
"""


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two groups of three dynamic members that are restarted one after another, for an hour."""
    words = ("--groups", "2", "--seconds", "3600", "--seed", "1")
    scenario = GROUP.removesuffix("-000000")
    return simulated_capture(
        tmp_path_factory.mktemp("advise") / "rolled.parquet", *words, "--scenario", scenario
    )


def test_the_whole_text(capture: Path, tmp_path: Path) -> None:
    """Deployments by the team that the rules name, then the groups, the largest effect first."""
    rules = tmp_path / "rules.toml"
    rules.write_text("[[group]]\nmatch = '*-000001'\nlabels = { team = 'blue' }\n")
    words = ("advise", "--from-file", capture, "--all-groups", "--since", "45m", "--rules", rules)
    result = invoke(*words)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"{TEXT}{FINDINGS}\n")


def test_json_has_the_sums_then_the_groups(capture: Path) -> None:
    """One array; each finding has its range, how it is computed, events that exist, and its section."""
    told = json.loads(invoke("advise", "--from-file", capture, GROUP, "-o", "json").stdout)
    assert [entry.get("group_id") for entry in told] == [None, GROUP]
    sums, group = told
    assert (sums["deployments"], sums["label"], sums["before"]) == (len(group["deployments"]), None, None)
    events = invoke("replay", "--from-file", capture, "--group", GROUP, "-o", "jsonl").stdout.splitlines()
    ids = {json.loads(line)["id"] for line in events}
    for finding in group["findings"]:
        assert set(finding["evidence"]) <= ids
        for effect in finding["effects"]:
            assert effect["how"]
            likely = effect["likely_least"], effect["likely_most"]
            assert likely == (None, None) or effect["least"] <= likely[0] <= likely[1] <= effect["most"]
    assert group["findings"][0]["effects"][1]["likely_least"] is not None
    lines = invoke("advise", "--from-file", capture, "--group", GROUP, "-o", "jsonl").stdout.splitlines()
    assert list(map(json.loads, lines)) == told


def test_more_of_it(capture: Path) -> None:
    """--verbose has how effects are computed, events, and the length of history that kinds need."""
    shown = invoke("advise", "--from-file", capture, GROUP, "--verbose").stdout
    for word in (
        "      Events   __consumer_offsets-simulated-",
        "rebalances in which nobody came",
        "it needs 7 d 0 h",
    ):
        assert word in shown


def test_nothing_to_advise(tmp_path: Path) -> None:
    """Healthy groups: one line with how many, and what their history is too short for."""
    path = tmp_path / "steady.parquet"
    words = ("--groups", "3", "--seconds", "2400", "--seed", "1", "--scenario", "steady")
    simulated_capture(path, *words)
    told = invoke("advise", "--from-file", path, "--all-groups").stdout
    assert told == (
        "Nothing to advise on 3 groups; the history of 3 of them is too short for offsets-at-risk, two-waves, "
        "unused-group.\n"
    )
    alone = invoke("advise", "--from-file", path, "steady-000000").stdout.splitlines()
    assert alone[1] == "     Nothing to advise."


def test_which_groups(capture: Path) -> None:
    """A group that does not exist gives exit code 5; neither a group nor --all-groups is a wrong command line."""
    none = invoke("advise", "--from-file", capture, "nobody", "-o", "json")
    assert (none.exit_code, json.loads(none.stdout)) == (5, [])
    assert none.stderr.startswith("nothing found: there is no group 'nobody' in ")
    for words in ((), ("g", "--all-groups")):
        refused = invoke("advise", "--from-file", capture, *words)
        assert refused.exit_code == 2
        assert "Give either GROUP, which may be a glob, or --all-groups." in refused.stderr


def test_the_time_before(capture: Path) -> None:
    """Where the log reaches back so far, the deployments of as long a time before stand beside them."""
    words = ("advise", "--from-file", capture, "--all-groups", "--since", "20m")
    sums = json.loads(invoke(*words, "-o", "json").stdout)[0]
    assert (sums["deployments"], sums["before"], sums["stopped_before_ms"][0] > 0) == (2, 2, True)
    assert ". In the time before: 2, " in invoke(*words).stdout.replace("\n", " ")


def test_what_a_setting_costs(tmp_path: Path) -> None:
    """It has a label of its own beside what the setting saves."""
    words = ("--scenario", "timeouts", "--seed", "2", "--groups", "1", "--seconds", "2400")
    path = simulated_capture(tmp_path / "timeouts.parquet", *words)
    told = printed_by("advise", "--from-file", path, "--all-groups")
    assert "      Saves    about 2 rebalances (by the records 0 to 2)\n      Costs    about 1 min " in told
    assert "but" not in told


def test_the_session_of_a_consumer_group(tmp_path: Path) -> None:
    """That of the brokers of the capture, which its own group may not have; a flag says what the group has."""
    brokers = ("--broker-property", "group.consumer.session.timeout.ms=50000")
    words = ("--scenario", "rolling-restart-10-kip848", "--seed", "1", "--groups", "1", "--seconds", "3600")
    path = simulated_capture(tmp_path / "modern.parquet", *words, *brokers)
    command = ("advise", "--from-file", path, "--all-groups")
    told = [" ".join(printed_by(*command, *more).split()) for more in ((), brokers)]
    assert ["back within the session of 50.0 s" in text for text in told] == [True, True]
    assert ["Assumed session timeout 50.0 s" in text for text in told] == [True, False]
    assert ["Assumed heartbeat interval 5.0 s" in text for text in told] == [True, True]
