"""``groupreplay report`` on the command line."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from groupreplay.app.report import page as pages
from groupreplay.codecs import GroupMetadataKey
from groupreplay.timeline.document import timeline_schema
from support.histories import stopped
from support.histories.builders import commit, generation, member
from support.job.captures import invoke, raw, simulated_capture, write_capture
from support.pictures.report_pages import PageParts
from support.pictures.timelines import BEGIN, MINUTE


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A capture of one group."""
    history = [
        generation(1, member("a", (0, 1)), at=BEGIN),
        commit("t", 0, 5, at=BEGIN + 1_000),
        generation(2, member("a", (0,)), member("b", (1,)), at=BEGIN + MINUTE),
    ]
    return write_capture(tmp_path / "a.parquet", raw(history))


def data_of(path: Path) -> dict[str, object]:
    """The document in a page."""
    parts = PageParts(path.read_text(encoding="utf-8"))
    (text,) = (content for _, attributes, content in parts.sources if attributes.get("id") == "data")
    found: dict[str, object] = json.loads(text)
    return found


def document_of(capture: Path, *flags: object) -> dict[str, Any]:
    """The document of group ``g``."""
    path = capture.with_suffix(".json")
    done = invoke("report", "--from-file", capture, "--group", "g", "-o", path, "--force", *flags)
    assert (done.exit_code, done.stdout) == (0, ""), done.stderr
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def test_the_document(capture: Path) -> None:
    """It fits its schema, which `schema timeline` prints, and says where it comes from."""
    document = document_of(capture)
    schema = json.loads(invoke("schema", "timeline").stdout)
    assert schema == json.loads(json.dumps(timeline_schema()))
    jsonschema.Draft202012Validator(schema).validate(document)
    assert [generation["generation"] for generation in document["generations"]] == [1, 2]
    source = document["source"]
    assert source["command"] == "groupreplay report --from-file a.parquet --group g -o a.json"
    assert (source["origin"], source["cluster_id"], len(source["digest"])) == ("a.parquet", "cluster-1", 64)


def test_the_command_draws_the_same_again(capture: Path, tmp_path: Path) -> None:
    """It has each flag that decides what is drawn; files by their names, because a document is sent on."""
    rules = tmp_path / "rules.toml"
    rules.write_text("")
    flags = ["--retention-minutes", "60", "--broker-release", "2.8"]
    flags += [
        "--broker-property",
        "group.consumer.session.timeout.ms=60000",
        "--complete-since",
        "2026-01-01",
    ]
    numbers = ["--rule", "rebalance.stuck.threshold_ms=3000", "--runbook-url", "https://runbook.example.com"]
    command = document_of(capture, *flags, "--rules", rules, *numbers)["source"]["command"]
    expected = [
        "groupreplay",
        "report",
        "--from-file",
        "a.parquet",
        *flags,
        "--rules",
        "rules.toml",
        *numbers,
    ]
    assert shlex.split(command) == [*expected, "--group", "g", "-o", "a.json"]


def test_the_size_of_the_file(capture: Path, tmp_path: Path) -> None:
    """In a unit that leaves something of it: a small document had 0.0 MB."""
    path = tmp_path / "small.json"
    done = invoke("report", "--from-file", capture, "--group", "g", "-o", path)
    assert done.stderr.splitlines()[-1] == f"{path} ({(path.stat().st_size + 500) // 1_000} kB)"


def test_a_part_of_the_time(capture: Path) -> None:
    """Between two points in time; an empty time is refused."""
    since = ("--since", str(BEGIN + 30_000))
    assert [one["generation"] for one in document_of(capture, *since)["generations"]] == [2]
    words = ("report", "--from-file", capture, "--group", "g", "-o", capture.with_suffix(".svg"))
    refused = invoke(*words, *since, "--until", str(BEGIN))
    assert (refused.exit_code, " is not after --since " in refused.stderr) == (2, True)


def test_redaction(capture: Path, tmp_path: Path) -> None:
    """Clients and hosts appear nowhere in the document."""
    key = tmp_path / "key"
    key.write_bytes(b"0123456789abcdef0123456789abcdef")
    flags = ("--redact", "hosts,client-id,member-id,instance-id", "--redact-key-file", key)
    document = document_of(capture, *flags)
    assert [name for name in ("client-a", "client-b", "10.0.0.1") if name in json.dumps(document)] == []
    assert document["source"]["redacted"] == ["client-id", "hosts", "instance-id", "member-id"]


def test_one_group(capture: Path, tmp_path: Path) -> None:
    """The page holds the document that ``-o FILE.json`` writes, but for the command."""
    page = tmp_path / "incident.html"
    done = invoke("report", "--from-file", capture, "--group", "g", "-o", page)
    assert (done.exit_code, str(page) in done.stderr, done.stdout) == (0, True, "")
    shown = data_of(page)
    assert {**shown, "source": None} == {**document_of(capture), "source": None}
    assert "report --from-file a.parquet --group g -o incident.html" in str(shown["source"])


def test_all_groups(capture: Path, tmp_path: Path) -> None:
    """The overview, with the worst groups in full; with --worst 0, no group in full."""
    page = tmp_path / "all.html"
    assert invoke("report", "--from-file", capture, "--all-groups", "-o", page).exit_code == 0
    shown = data_of(page)
    assert ([one["group_id"] for one in shown["strips"]], len(shown["timelines"])) == (["g"], 1)  # type: ignore[attr-defined,arg-type]
    assert (
        invoke(
            "report", "--from-file", capture, "--all-groups", "--worst", 0, "-o", page, "--force"
        ).exit_code
        == 0
    )
    assert data_of(page)["timelines"] == []


def test_svg(capture: Path, tmp_path: Path) -> None:
    """The picture alone."""
    picture = tmp_path / "a.svg"
    assert invoke("report", "--from-file", capture, "--group", "g", "-o", picture).exit_code == 0
    assert picture.read_text(encoding="utf-8").startswith("<svg ")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["-o", "a.html"], "Give either --group or --all-groups."),
        (["--group", "g", "--all-groups", "-o", "a.html"], "Give either --group or --all-groups."),
        (["--group", "g", "-o", "a.pdf"], "-o must end with .html, .svg or .json."),
        (
            ["--all-groups", "--whatif", "group.instance.id=auto", "-o", "a.html"],
            "--whatif is about one group",
        ),
        (["--all-groups", "-o", "a.svg"], "A file *.svg shows one group"),
        (["--all-groups", "-o", "a.json"], "A file *.json shows one group"),
    ],
)
def test_flags_that_do_not_fit(flags: list[str], message: str, capture: Path) -> None:
    """Each is refused before anything is read."""
    done = invoke("report", "--from-file", capture, *flags)
    assert (done.exit_code, message in done.stderr) == (2, True)


def test_a_folder_that_does_not_exist(capture: Path, tmp_path: Path) -> None:
    """The error says so, and nothing is left behind."""
    done = invoke("report", "--from-file", capture, "--group", "g", "-o", tmp_path / "no" / "a.html")
    assert (done.exit_code, "cannot write the report" in done.stderr) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet"]


def test_many_stormy_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of all groups keeps to its size: the groups are summed up, and those that do not fit are counted."""
    records = []
    for group in (f"storm-{number}" for number in range(2)):
        for number in range(1, 61):
            members = [member("a", (0,)), member(f"b-{number}", (1,))]
            one = generation(number, *members, at=BEGIN + number * 25_000)
            records.append(replace(one, key=GroupMetadataKey(group=group)))
    capture, page = write_capture(tmp_path / "storm.parquet", raw(records)), tmp_path / "all.html"
    sizes, shown = [], []
    for most in (pages.ALL_BYTES, 60_000, 7_000):
        monkeypatch.setattr(pages, "ALL_BYTES", most)
        done = invoke("report", "--from-file", capture, "--all-groups", "-o", page, "--force")
        assert done.exit_code == 0, done.output
        data: Any = data_of(page)
        sizes.append(pages.island_bytes(data))
        shown.append((len(data["strips"]), len(data["timelines"]), data["remarks"][-1]["text"]))
    assert sizes[0] > 60_000 >= sizes[1] > 7_000 >= sizes[2]
    strips = "Strips are made from events; a group in full also has its states, owners and commits."
    assert shown[:2] == [(2, 2, strips), (2, 2, strips)]
    left_out = "1 group did not fit in full; groupreplay report --group draws each alone."
    assert shown[2] == (2, 1, left_out)


def test_what_other_settings_would_have_made_of_it(tmp_path: Path) -> None:
    """Both histories are in the document, and its command asks the same again."""
    capture, path = tmp_path / "roll.parquet", tmp_path / "roll.json"
    scenario = ("--scenario", "rolling-restart-3-dynamic-eager")
    simulated_capture(capture, "--groups", "1", "--seconds", "600", *scenario)
    words = ("--group", "roll*", "--whatif", "group.instance.id=auto", "-o", path)
    assert invoke("report", "--from-file", capture, *words).exit_code == 0
    document = json.loads(path.read_text())
    assert "--whatif group.instance.id=auto" in document["source"]["command"]
    recorded, played = document["whatif"]["lanes"]
    assert (len(recorded["rebalances_ms"]) > 3, played["rebalances_ms"]) == (True, [])


def test_what_a_stop_cost(tmp_path: Path) -> None:
    """The lanes have the records that came in it, ± one interval: at the rebalance, and at the time without commits."""
    document = document_of(stopped.stopped_capture(tmp_path / "stopped.parquet"))
    ((quiet, topics),) = ((one["cost"], one["topics"]) for one in document["quiet_times"])
    flag = document["generations"][-1]["cost"]
    slack = stopped.PARTITIONS * stopped.RATE * stopped.INTERVAL_MS // 1_000
    assert (topics, quiet["since_ms"], quiet["until_ms"]) == (["t"], stopped.LAST_MS, stopped.FIRST_MS - 1)
    assert (flag["until_ms"], flag["caught_up_ms"]) == (stopped.ENDED_MS, stopped.CAUGHT_UP_MS)
    for cost in (quiet, flag):
        came = stopped.written(cost["until_ms"]) - stopped.written(cost["since_ms"])
        assert abs(cost["added"] - stopped.PARTITIONS * came) <= slack
        assert cost["partitions"] == stopped.PARTITIONS
    bare = document_of(stopped.stopped_capture(tmp_path / "bare.parquet", with_ends=False))
    assert (bare["quiet_times"], bare["generations"][-1]["cost"]) == ([], None)
