"""Rules of the source tree; each check is first shown to find an offence that was planted in a small tree."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from support.paths import ROOT
from support.tools import source_checks as checks

Check = Callable[[Path], list[str]]

#: Modules that only declare, or are part of another module -> the test file that covers them.
COVERED_BY = {
    "state/conditions/commit_gaps.py": "tests/state/conditions/rebalance/test_suspected.py",
    "state/conditions/condition.py": "tests/state/conditions/test_tracker.py",
    "state/conditions/current_rebalance.py": "tests/state/conditions/rebalance/test_stuck.py",
    "state/conditions/detection.py": "tests/state/conditions/test_registry.py",
    "state/conditions/job/behind.py": "tests/state/test_job_watch.py",
    "state/conditions/suspects.py": "tests/state/conditions/rebalance/test_stuck.py",
    "state/events/event.py": "tests/state/output/test_envelope.py",
    "state/events/group_events.py": "tests/state/output/test_envelope.py",
    "state/events/offset_events.py": "tests/state/replay/offset_changes/test_losses.py",
    "state/job/observations.py": "tests/state/test_job_watch.py",
    "state/model/consumer/assignor_input.py": "tests/state/model/consumer/test_assignors.py",
    "state/model/consumer/membership.py": "tests/state/model/consumer/test_protocol.py",
    "state/model/consumer/records.py": "tests/state/model/consumer/test_group.py",
    "state/model/consumer/tracing.py": "tests/state/model/test_trace.py",
    "state/model/consumer/validation.py": "tests/state/model/consumer/test_protocol.py",
    "state/model/coordinator_state.py": "tests/state/model/test_coordinator.py",
    "state/model/requests.py": "tests/state/model/test_coordinator.py",
    "state/model/trace_entries.py": "tests/state/model/test_trace.py",
    "state/timeline/document.py": "tests/state/timeline/test_group_timeline.py",
    "state/timeline/remarks.py": "tests/state/timeline/test_group_timeline.py",
    "state/timeline/rows.py": "tests/state/timeline/test_group_timeline.py",
    "state/timeline/timeline_schema.py": "tests/streaming/cli/commands/pictures/test_timeline.py",
    "streaming/cli/pictures.py": "tests/streaming/cli/commands/pictures/test_timeline.py",
    "state/output/catalogue.py": "tests/state/output/test_envelope.py",
    "state/output/schemas.py": "tests/state/output/test_envelope.py",
    "state/policy/context.py": "tests/state/test_group.py",
    "state/replay/group_summary.py": "tests/state/replay/test_modern_diff.py",
    "state/replay/modern_operation.py": "tests/state/replay/test_modern_diff.py",
    "state/replay/offset_changes/occasions.py": "tests/state/replay/offset_changes/test_sets.py",
    "state/replay/operation.py": "tests/state/test_group.py",
    "state/replay/report.py": "tests/state/replay/test_classic.py",
    "state/simulation/consumer.py": "tests/state/simulation/test_simulation.py",
    "state/simulation/script.py": "tests/state/simulation/test_scenario.py",
    "state/simulation/trace_schema.py": "tests/streaming/simulate/test_files.py",
    "state/snapshot/conditions.py": "tests/state/conditions/test_tracker.py",
    "state/snapshot/group_snapshot.py": "tests/state/test_group.py",
    "state/snapshot/group_state.py": "tests/state/test_group.py",
    "state/snapshot/log_position.py": "tests/state/test_group.py",
    "state/snapshot/losses.py": "tests/state/replay/offset_changes/test_losses.py",
    "state/snapshot/observations.py": "tests/state/test_group.py",
    "state/snapshot/slot_history.py": "tests/state/replay/test_slot_history.py",
    "state/snapshot/version_1.py": "tests/streaming/engine/test_stored_states.py",
    "streaming/contract/output.py": "tests/streaming/engine/test_advance.py",
    "streaming/demo/pages.py": "tests/integration/commands/test_demo.py",
    "streaming/engine/packing/clock_rows.py": "tests/streaming/engine/packing/test_pack.py",
    "streaming/engine/packing/horizons.py": "tests/streaming/engine/packing/test_record_times.py",
    "streaming/inspection/capture_files/log_order.py": "tests/streaming/inspection/test_capture_file.py",
    "streaming/inspection/describe_columns.py": "tests/streaming/inspection/test_describe.py",
    "streaming/job/query_run.py": "tests/integration/run/test_run_live.py",
    "streaming/serve/event_streams.py": "tests/streaming/serve/test_event_feed.py",
    "streaming/serve/history/overview.py": "tests/streaming/serve/test_api.py",
    "streaming/serve/history/queries.py": "tests/streaming/serve/test_api.py",
    "streaming/serve/history/rows.py": "tests/streaming/serve/history/test_writer.py",
    "streaming/serve/job_summary.py": "tests/streaming/serve/test_api.py",
    "streaming/serve/parameters.py": "tests/streaming/serve/test_api.py",
    "streaming/simulate/scenario_errors.py": "tests/streaming/simulate/test_scenario_files.py",
    "streaming/simulate/topics.py": "tests/integration/commands/test_simulate_topic.py",
    "streaming/spark/checkpoint_errors.py": "tests/streaming/spark/test_checkpoint.py",
    "streaming/spark/checkpoint_identity.py": "tests/streaming/spark/test_checkpoint.py",
    "streaming/spark/internals/failure_causes.py": "tests/streaming/job/test_faults.py",
    "streaming/spark/internals/java_progress.py": "tests/streaming/spark/test_batch_progress.py",
    "streaming/spark/internals/jvm.py": "tests/streaming/spark/test_session.py",
}

#: Decoders outside of ``streaming/contract/message_decoder.py`` -> why no bytes of a topic reach them unchecked.
DECODED_ELSEWHERE = {
    "streaming/bundle/submitted_program.py json.load": "a file of the archive",
    "streaming/cli/commands/events.py bytes.decode": "EventTopic leaves out what is no JSON",
    "streaming/cli/commands/replay.py bytes.decode": "events that this process has encoded",
    "streaming/cli/commands/replay.py json.loads": "events that this process has encoded",
    "streaming/config/config_file.py msgspec.toml.decode": "a file of the operator",
    "streaming/config/rules_file.py msgspec.convert": "a file of the operator",
    "streaming/config/rules_file.py msgspec.toml.decode": "a file of the operator",
    "streaming/demo/scenario.py json.loads": "a command line of the demo",
    "streaming/engine/advance.py bytes.decode": "ids that `pack` has decoded",
    "streaming/engine/json_messages.py bytes.decode": "ids of groups, with replacement of what is no UTF-8",
    "streaming/engine/json_messages.py msgspec.convert": "counts of this process",
    "streaming/engine/json_messages.py msgspec.json.decode": "messages that this process has encoded",
    "streaming/engine/quarantine.py bytes.decode": "ids that `pack` has decoded",
    "streaming/engine/replay.py bytes.decode": "ids that `pack` has decoded",
    "streaming/engine/replay.py msgspec.json.Decoder": "events that this process has encoded or EventTopic checked",
    "streaming/engine/wire.py msgspec.msgpack.Decoder": "rows that `pack` has made",
    "streaming/inspection/fail_on.py msgspec.json.decode": "events that this process has encoded",
    "streaming/inspection/history.py json.loads": "events that this process has encoded",
    "streaming/kafka/clients.py bytes.decode": "base64 of this process",
    "streaming/local/jars.py json.loads": "a file of the package",
    "streaming/local/process_guard.py json.loads": "a pipe between two processes of groupreplay",
    "streaming/prober/prober_process.py msgspec.json.decode": "a pipe between two processes of groupreplay",
    "streaming/cli/commands/pictures/timeline.py bytes.decode": "JSON of this process",
    "streaming/report/assets.py bytes.decode": "base64 of this process",
    "streaming/report/assets.py json.loads": "a file of the package",
    "streaming/report/overview.py json.loads": "events that this process has encoded",
    "streaming/report/timelines.py json.loads": "events that this process has encoded",
    "streaming/report/timelines.py msgspec.json.decode": "a file of the operator",
    "streaming/serve/offsets_log/group_logs.py json.loads": "events that this process has encoded",
    "streaming/simulate/scenario_files.py msgspec.convert": "a file of the operator",
    "streaming/simulate/scenario_files.py msgspec.toml.decode": "a file of the operator",
    "streaming/spark/batch_progress.py json.loads": "the JVM's reports",
    "streaming/spark/checkpoint.py msgspec.json.decode": "a file of the checkpoint",
    "streaming/spark/checkpoint_files.py msgspec.json.decode": "a file of the checkpoint",
    "streaming/spark/checkpoint_identity.py msgspec.json.decode": "a file of the checkpoint",
    "streaming/spark/internals/group_worker.py bytes.decode": "JSON of this process",
    "streaming/spark/internals/group_worker.py msgspec.json.decode": "the JVM's description of a state",
    "streaming/spark/internals/java_progress.py json.loads": "the JVM's reports",
    "streaming/spark/operator.py bytes.decode": "headers of this process",
    "streaming/spark/source.py json.loads": "a file of the checkpoint",
    "streaming/simulate/rows.py bytes.decode": "lines that this process has encoded",
}

#: What each check finds in the tree today. Nothing may be added, and what was put right must be removed.
TODAY: dict[Check, list[str]] = {
    checks.imported_packages: [],
    checks.loaded_packages: [],
    checks.clocks_read: [],
    checks.bare_decodings: [*DECODED_ELSEWHERE],
    checks.modules_without_docstring: [],
    checks.modules_without_test: [*COVERED_BY],
    checks.tests_without_module: [
        "tests/state/conditions/test_scenarios.py",
        "tests/state/model/classic/test_scala.py",
        "tests/state/model/test_coordinator_move.py",
        "tests/state/replay/test_modern_diff_departures.py",
        "tests/streaming/engine/test_stored_states.py",
        "tests/streaming/inspection/test_expiry_flags.py",
    ],
    checks.crowded_packages: [],
    checks.long_modules: [
        "tests/state/conditions/test_scenarios.py",
        "tests/state/model/test_coordinator.py",
    ],
    checks.long_functions: [
        "state/output/schemas.py event_schema",
        "state/replay/offset_changes/losses.py report_tombstones",
        "state/replay/modern_diff.py _emit_completed",
        "streaming/local/ivy.py retrieve",
        "tests/support/histories/builders.py _run",
    ],
    checks.endless_waits: [],
    checks.repeated_class_names: [],
    checks.old_names: [],
    checks.stale_paths: [],
}

LONG_MODULE = '"""A list."""\n' + "1\n" * 400
LONG_FUNCTION = '"""A function."""\ndef long():\n' + "    1\n" * 40
#: (check, planted files, what the check must find)
PLANTED: list[tuple[Check, dict[str, str], list[str]]] = [
    (
        checks.imported_packages,
        {
            "codecs/a.py": "def f():\n    import numpy.linalg",
            "state/deep/b.py": "from numpy import array; import click",
        },
        ["codecs/a.py imports numpy", "state/deep/b.py imports click"],
    ),
    (
        checks.loaded_packages,
        {"codecs/deep/__init__.py": "", "codecs/deep/a.py": "__import__('click')"},
        ["codecs loads click"],
    ),
    (
        checks.clocks_read,
        {"state/deep/a.py": "import time as t\nnow = t.monotonic"},
        ["state/deep/a.py reads time.monotonic"],
    ),
    (checks.clocks_read, {"state/a.py": "from time import time\ntime()"}, ["state/a.py reads time.time"]),
    (
        checks.clocks_read,
        {
            "codecs/a.py": "import datetime\nfrom datetime import datetime as dt\ndt.now(); datetime.date.today()"
        },
        ["codecs/a.py reads datetime.date.today", "codecs/a.py reads datetime.datetime.now"],
    ),
    (
        checks.bare_decodings,
        {
            "streaming/deep/a.py": "import json\nfrom msgspec.json import Decoder as D\n"
            "def f(x):\n    json.loads(x); D(int); x.decode(); x.decode('utf-8', 'replace')",
        },
        [
            "streaming/deep/a.py bytes.decode",
            "streaming/deep/a.py json.loads",
            "streaming/deep/a.py msgspec.json.Decoder",
        ],
    ),
    (checks.modules_without_docstring, {"streaming/deep/a.py": "A = 1"}, ["streaming/deep/a.py"]),
    (checks.modules_without_test, {"state/deep/a.py": "", "tests/state/test_a.py": ""}, ["state/deep/a.py"]),
    (
        checks.tests_without_module,
        {"state/a.py": "", "tests/state/deep/test_a.py": ""},
        ["tests/state/deep/test_a.py"],
    ),
    (checks.crowded_packages, {f"tests/deep/m{number}.py": "" for number in range(16)}, ["tests/deep"]),
    (checks.long_modules, {"benchmarks/a.py": LONG_MODULE}, ["benchmarks/a.py"]),
    (checks.long_functions, {"tests/support/deep/a.py": LONG_FUNCTION}, ["tests/support/deep/a.py long"]),
    (
        checks.endless_waits,
        {
            "tests/deep/a.py": "while not is_ready():\n    pass\n",
            "benchmarks/a.py": "while True:\n    while count() < 3:\n        time.sleep(1)\n    break\n",
            "tests/b.py": "while x := f():\n    g(x)\nwhile at < len(text):\n    at = next_of(at)\n",
        },
        ["tests/deep/a.py 1", "benchmarks/a.py 2"],
    ),
    (
        checks.repeated_class_names,
        {"codecs/deep/a.py": "class A: ...", "state/b.py": "def f():\n    class A: ..."},
        ["A: codecs/deep/a.py, state/b.py"],
    ),
    (
        checks.stale_paths,
        {
            "docs/a.md": "[a](state/a.py) [b](https://x.org/state/b.py)",
            "state/deep/a.py": "# docs/a.md, docs/b.md",
        },
        ["docs/a.md names state/a.py", "state/deep/a.py names docs/b.md"],
    ),
    (checks.old_names, {"state/deep/a.py": "class Saved: ..."}, ["state/deep/a.py Saved"]),
]


@pytest.mark.parametrize(("check", "files", "found"), PLANTED)
def test_a_planted_offence_is_found(
    tmp_path: Path, check: Check, files: dict[str, str], found: list[str]
) -> None:
    """Nothing is found in a tree without offences; with the planted files, exactly these."""
    (tmp_path / "src" / "groupreplay").mkdir(parents=True)
    (tmp_path / "src" / "groupreplay" / "__init__.py").touch()
    for room in checks.ROOMS:
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text('"""A room."""')
        (tmp_path / "src" / "groupreplay" / room).symlink_to(tmp_path / room)
    assert check(tmp_path) == []
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert check(tmp_path) == found


@pytest.mark.parametrize("check", TODAY, ids=lambda check: check.__name__)
def test_the_tree_keeps_the_rules(check: Check) -> None:
    """The check finds what is listed in ``TODAY``: no new offence, and no entry that is out of date."""
    found, listed = set(check(ROOT)), set(TODAY[check])
    assert {"new": found - listed, "put right, to be removed": listed - found} == {
        "new": set(),
        "put right, to be removed": set(),
    }


def test_every_test_has_a_deadline(pytestconfig: pytest.Config) -> None:
    """The default of pytest-timeout, in seconds, for what waits without one of its own; no test turns it off."""
    assert pytestconfig.getini("timeout") == "300"
    endless = re.compile(r"mark\.timeout\((0|None)?\)")
    assert [one.path for one in checks.modules(ROOT, "tests") if endless.search(one.text)] == []


def test_every_check_is_shown_to_fail() -> None:
    """Each check that the tree passes has a planted offence."""
    assert {check for check, _, _ in PLANTED} == set(TODAY)


def test_covering_test_files_exist() -> None:
    """Each test file that stands in for another one is there."""
    assert [path for path in COVERED_BY.values() if not (ROOT / path).is_file()] == []
