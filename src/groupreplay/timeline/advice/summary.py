"""The advice on a group as pages show it: drawn as it stands, with links to the sections of its page."""

from __future__ import annotations

from typing import Final

from groupreplay.timeline.advice.deployments import TEAM, deployment_sums
from groupreplay.timeline.advice.finding import PAGE, AdviceSummary, Finding, FindingSummary, GroupAdvice
from groupreplay.timeline.advice.words import assumed_text, deployment_text, effect_text

#: Ids of events that a page shows.
_SHOWN_EVENTS: Final = 3
_RUNBOOK: Final = "runbook.md"


def advice_page(runbook: str) -> str:
    """The page on advice, beside that of the runbook that the rules name; the path in our docs if that is another one.

    Of a site made from the docs too: ``https://docs.example.com/runbook/``.
    """
    for name, mine in (
        (_RUNBOOK, PAGE.rpartition("/")[2]),
        ("runbook/", "advice/"),
        ("runbook.html", "advice.html"),
    ):
        if runbook.endswith(f"/{name}"):
            return f"{runbook.removesuffix(name)}{mine}"
    return PAGE


def advice_summary(advised: GroupAdvice, runbook: str) -> AdviceSummary | None:
    """What a page shows; ``runbook``: the address of that page. None: there is nothing to say."""
    sums = deployment_sums(advised.deployments, TEAM, advised.since_ms, None)
    if not advised.findings and not sums:
        return None
    page = advice_page(runbook)
    return AdviceSummary(
        since_ms=advised.since_ms,
        until_ms=advised.until_ms,
        findings=tuple(_finding(finding, page) for finding in advised.findings),
        left_out=advised.left_out,
        deployments=deployment_text(sums[0], of_one_group=True) if sums else "",
        page=page,
    )


def _finding(finding: Finding, page: str) -> FindingSummary:
    return FindingSummary(
        id=finding.id,
        kind=finding.kind,
        text=finding.text,
        setting=finding.setting,
        value=finding.value,
        saves=tuple(map(effect_text, finding.effects)),
        assumed=tuple(assumed_text(name, value) for name, value in finding.assumed.items()),
        evidence=finding.evidence[:_SHOWN_EVENTS],
        events=finding.events,
        page=f"{page}#{finding.kind.value}",
    )
