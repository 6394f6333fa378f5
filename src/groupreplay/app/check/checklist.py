"""The list of all checks, in order, and how each is run with a time limit. No check changes anything."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from groupreplay.app.check import (
    CheckResult,
    CheckSettings,
    Status,
    Subject,
    cluster_checks,
    failed,
    machine_checks,
    unknown,
)
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.spark.session import jvm_runs_already

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Check:
    """A check with one or more results; ``needs`` names the checks that must succeed before it."""

    name: str
    ask: Callable[[Subject], Sequence[CheckResult]]
    needs: tuple[str, ...] = ()
    when: Callable[[CheckSettings], bool] = field(default=lambda _: True)


_CHECKS: Final = (
    _Check("java", machine_checks.java),
    _Check("spark", machine_checks.spark, when=lambda _: jvm_runs_already()),
    _Check("versions", machine_checks.versions),
    _Check("cluster", lambda of: cluster_checks.cluster("cluster", of.source)),
    _Check(
        "sink cluster",
        lambda of: cluster_checks.cluster("sink cluster", of.sink),
        when=lambda of: of.sink not in (None, of.source),
    ),
    _Check("rights", cluster_checks.source_rights, needs=("cluster",)),
    _Check("sink rights", cluster_checks.sink_rights, needs=("cluster", "sink cluster")),
    _Check("iam policy", cluster_checks.iam_policies),
    _Check("offsets topic", cluster_checks.offsets_topic, needs=("cluster",)),
    _Check("transactions", cluster_checks.transactions, needs=("offsets topic",)),
    _Check("clock", cluster_checks.clock, needs=("offsets topic",)),
    _Check("retention", cluster_checks.retention, needs=("cluster",)),
    _Check("output topics", cluster_checks.output_topics, needs=("cluster", "sink cluster")),
    _Check(
        "checkpoint",
        machine_checks.checkpoint,
        needs=("offsets topic", "sink cluster"),
        when=lambda of: of.checkpoint is not None,
    ),
    _Check("pages", machine_checks.pages, when=lambda of: of.listen is not None),
)


def run_checks(settings: CheckSettings) -> Iterator[CheckResult]:
    """The results as they arrive, each within ``timeout_seconds``. Failures are results, not exceptions."""
    subject = Subject(settings)
    blocked: set[str] = set()
    for check in _CHECKS:
        if not check.when(settings):
            continue
        missing = [name for name in check.needs if name in blocked]
        results = (
            [unknown(check.name, f"needs this check to be ok first: {missing[0]}")]
            if missing
            else _within(check, subject, settings.timeout_seconds)
        )
        if any(result.status in (Status.FAILED, Status.SKIPPED) for result in results):
            blocked.add(check.name)
        yield from results


def exit_code(results: Sequence[CheckResult]) -> ExitCode:
    """The exit code of the first failure; 0 without a failure. Warnings do not count."""
    return next((result.exit_code for result in results if result.status is Status.FAILED), ExitCode.OK)


def _within(check: _Check, subject: Subject, seconds: float) -> Sequence[CheckResult]:
    """The results of a check, or a failure if it exceeds the time limit; its thread is then abandoned."""
    answers: list[Sequence[CheckResult]] = []
    thread = threading.Thread(
        target=lambda: answers.append(_answered(check, subject)), name=f"check-{check.name}", daemon=True
    )
    thread.start()
    thread.join(seconds)
    if answers:
        return answers[0]
    error = GroupReplayError(
        f"no answer within {seconds:g} s",
        fix="check the brokers and the network, or raise --timeout",
        exit_code=ExitCode.CONNECTION,
    )
    return [failed(check.name, error)]


def _answered(check: _Check, subject: Subject) -> Sequence[CheckResult]:
    try:
        return check.ask(subject)
    except GroupReplayError as error:
        return [failed(check.name, error)]
    except Exception as error:  # an error in one check must not hide the results of the others
        log.debug("check %s", check.name, exc_info=True)
        what = f"{type(error).__name__}: {error}"
        return [failed(check.name, GroupReplayError(what, fix="run it again with --debug for the traceback"))]
