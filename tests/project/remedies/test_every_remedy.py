"""Every message that names a remedy has a test that reads the remedy in the printed message, and applies it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

from support.paths import ROOT
from support.tools.remedies_in_source import remedies

#: Reason -> keys, as for ``read_remedy``, of what no test applies.
NOT_APPLIED: dict[str, tuple[str, ...]] = {
    "it tells what happens, and nothing is to do": (
        "api.sources: decode() says",
        "api.sources: groupreplay failed",
        "app.cli.program: No such command",
        "app.serve.history.writer: it begins again",
        "app.cli.flags: --broker-log-pattern",
        "streaming.broker_log.files: no line has",
        "streaming.broker_log.files: the archive is",
        "streaming.broker_log.reader: no line is",
        "streaming.config.retention: it is not used",
        "streaming.engine.json_messages: … are allowed,",
        "streaming.kafka.broker_config: …, before …",
        "streaming.prober.service: started again",
        "streaming.sources.log_folders: what is behind",
        "streaming.spark.checkpoint: only the claim",
        "streaming.spark.checkpoint_files: …; only the lock",
        "streaming.spark.session: Spark is running",
        "streaming.spark.session: nothing: the",
        "streaming.spark.session_checks: it uses Spark's",
        "streaming.spark.session_checks: it was run with",
        "streaming.spark.worker_check: the query waits",
    ),
    "a defect of the program or of its install: nobody knows before it is there": (
        "app.check.checklist: run it again",
        "app.demo.run: the end of its",
        "app.report.assets: install groupreplay",
        "streaming.spark.faults: --debug shows",
        "streaming.spark.preflight: groupreplay check",
    ),
    "a clock of the machine, which no test may set": (
        "app.check.cluster_checks: synchronise the",
        "state.conditions.job_blind: chronyc tracking,",
        "streaming.engine.probe_rows: check the clocks",
        "streaming.run.context: synchronise it",
        "streaming.spark.faults: correct that",
        "streaming.watch.log_clock: times are corrected by that; chronyc tracking",
    ),
    "another release of Kafka, Spark, Python or a library than the tests have": (
        "app.check.cluster_checks: start its producer",
        "app.check.machine_checks: pip install --upgrade",
        "app.check.machine_checks: … (on a cluster:",
        "streaming.kafka.group_admin: each round of",
        "streaming.local.ivy: pip install 'groupreplay[spark]'",
        "streaming.local.jars: pip install 'pyspark==….*',",
        "streaming.spark.faults: run the release",
        "streaming.spark.faults: start the job with",
        "streaming.spark.preflight: use one of these",
        "streaming.spark.session_checks: leave it out:",
        "streaming.spark.session_checks: pip install setuptools,",
        "streaming.spark.session_checks: start it with:",
        "streaming.spark.session_checks: start it with",
        "streaming.spark.worker_check: use one release",
    ),
    "an input that is too large for the speed of the machine: no test depends on either": (
        "app.mcp.answers: ask for one group, or",
    ),
    "a network, a proxy, a platform or an index that the tests do not have": (
        "app.bundle.archive: pip reads its",
        "app.check.machine_checks: metrics name",
        "app.check.cluster_checks: allow in IAM:",
        "app.check.cluster_checks: IAM has no action",
        "streaming.kafka.output_topics: allow in IAM:",
        "streaming.kafka.output_topics: IAM has no action",
        "streaming.kafka.rights: allow in IAM:",
        "streaming.kafka.rights: IAM has no action",
        "streaming.local.ivy: the proxy requires",
    ),
    "brokers, or a disk, that are away: tests/integration/cluster and outages go on when they are back": (
        "app.check.cluster_checks: check these brokers;",
        "app.simulate.topics: check the brokers,",
        "streaming.kafka.client_errors: check that all",
        "streaming.kafka.log_check: check that they",
        "streaming.kafka.output_topics: check the cluster's",
        "streaming.kafka.raw_log: try again",
        "streaming.prober.prober: the groups that",
        "streaming.run.topic_owner: check the broker",
        "streaming.spark.checkpoint: check its rights",
        "streaming.spark.checkpoint_files: check that its",
        "streaming.spark.preflight: check that all",
        "streaming.spark.preflight: check the broker",
    ),
}


def keys_in_tests() -> set[str]:
    """The keys that the tests have."""
    modules = {remedy.module for remedy in remedies()}
    return {
        text
        for path in (ROOT / "tests").rglob("*.py")
        if path != Path(__file__)
        for text in _texts(path)
        if text.partition(": ")[0] in modules
    }


def _texts(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def not_named(texts: Collection[str], keys: Collection[str]) -> list[str]:
    """The remedies, each with its module in front, that no key names."""
    return [text for text in texts if not text.startswith(tuple(keys))]


def test_each_remedy_is_applied_or_has_a_reason() -> None:
    """A new remedy needs a test; a key of a remedy that is gone, or that a test applies now, must leave."""
    texts = [f"{remedy.module}: {remedy.text}" for remedy in remedies()]
    applied, excused = keys_in_tests(), {key for keys in NOT_APPLIED.values() for key in keys}
    assert not_named(texts, applied | excused) == []
    open_texts = not_named(texts, applied)
    assert [key for key in applied if not any(text.startswith(key) for text in texts)] == []
    assert [key for key in excused if not any(text.startswith(key) for text in open_texts)] == []


def test_where_a_remedy_may_stand(tmp_path: Path) -> None:
    """As an argument, in a table, in another function, in what a function returns; of a warning its second half."""
    (tmp_path / "module.py").write_text(
        "TABLE = (('sign', 'what', 'set it'), ('sign', 'what', 'unset it'))\n"
        "def refuse(what, fix):\n"
        "    return MyError(what, fix=fix)\n"
        "def choose(flag):\n"
        "    return f'give {flag}' if flag else 'give a flag'\n"
        "def all(text, flag):\n"
        "    refuse(text, 'stop the other one')\n"
        "    for sign, what, fix in TABLE:\n"
        "        MyError(what, fix=fix)\n"
        "    raise UsageError(f'no {text}: ' + choose(flag))\n"
        "log.warning('%s is late: wait %d s', 1, 2)\n"
        "MyError('no remedy', where='here')\n"
    )
    assert [(one.module, one.text, one.lines) for one in remedies(tmp_path)] == [
        ("module", "stop the other one", (7,)),
        ("module", "set it", (9,)),
        ("module", "unset it", (9,)),
        ("module", "no …: give …", (10,)),
        ("module", "no …: give a flag", (10,)),
        ("module", "wait … s", (11,)),
    ]
