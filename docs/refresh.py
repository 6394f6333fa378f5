"""Writes the generated pages and parts of pages: ``make docs``. Tests fail when one is out of date."""

from __future__ import annotations

import re
from pathlib import Path

from generators import (
    alert_tests,
    alerts,
    configuration_page,
    events_page,
    platforms_page,
    records_page,
    rules_page,
    simulations_page,
    states_page,
    trace_page,
    whatif_page,
)
from groupreplay.app.exporter.metric_catalog import metrics_table
from groupreplay.streaming.spark.session import DAEMON

DOCS = Path(__file__).parent
#: Page -> the module that makes it.
PAGES = {
    "records.md": records_page,
    "events.md": events_page,
    "states.md": states_page,
    "trace.md": trace_page,
    "configuration.md": configuration_page,
    "../deploy/rules.toml": rules_page,
}


def replace_part(page: Path, before: str, part: str, after: str) -> None:
    """Puts the part between two patterns of a page that is written by hand."""
    pattern = f"({before}).*?({after})"
    text = re.sub(pattern, lambda match: match[1] + part + match[2], page.read_text(), flags=re.S)
    page.write_text(text)


def alert_parts() -> list[tuple[str, str, str, str]]:
    """The parts that are made from the alerts of conditions, as for ``replace_part``."""
    rules, tests = (f"../deploy/prometheus/groupreplay.rules.{end}" for end in ("yml", "test.yml"))
    begin, end = r"# ---- from the conditions, by `make docs`\n", r" +# ---- by hand\n"
    of_groups, of_job = alerts.rows(alerts.OF_GROUPS), alerts.rows(alerts.OF_JOB)
    return [
        (rules, rf"groupreplay-groups\n.*?{begin}", alerts.rules(alerts.OF_GROUPS), end),
        (rules, rf"groupreplay-job\n.*?{begin}", alerts.rules(alerts.OF_JOB), end),
        (tests, begin, alert_tests.tests(), end),
        ("monitoring.md", r"\| alert \|[^\n]*\n[^\n]*\n", of_groups, r"\n\| `ConsumerGroupNobodyCommits`"),
        (
            "monitoring.md",
            r"\n\| `GroupReplayTopicsUnreadable` [^\n]*\n",
            of_job,
            r"\n\| `GroupReplayCaughtUpOld`",
        ),
    ]


def main() -> None:
    """All pages, then the generated parts of others."""
    for page, module in PAGES.items():
        (DOCS / page).write_text(module.page(), encoding="utf-8")
    replace_part(DOCS / "monitoring.md", r"## Metrics\n\n", metrics_table(), r"\n\n## Good to know")
    for page, before, part, after in alert_parts():
        replace_part(DOCS / page, before, part, after)
    # Helm reads no file outside its chart.
    rules = DOCS / "../deploy/prometheus/groupreplay.rules.yml"
    (DOCS / "../deploy/helm/groupreplay/files" / rules.name).write_bytes(rules.read_bytes())
    simulations = DOCS / "simulations.md"
    replace_part(simulations, r"one text with commas[.]\n\n", simulations_page.settings_tables(), r"\n\n## ")
    replace_part(
        DOCS / "whatif.md", r"a sentence\.\n\n", whatif_page.settings_table(), r"\n\n`group.instance.id=auto`"
    )
    platforms = DOCS / "platforms.md"
    replace_part(platforms, r"### What an archive contains\n\n", platforms_page.lines_table(), r"\n\n")
    # Where the commands are written by hand.
    replace_part(platforms, rf"{DAEMON[0]}=", DAEMON[1], r" \\\n")
    replace_part(DOCS / "../deploy/kubernetes/spark-application.yaml", rf"{DAEMON[0]}: ", DAEMON[1], r"\n")
    replace_part(platforms, r"### Submitting it\n\n", platforms_page.commands(), r"\n\n## YARN")


if __name__ == "__main__":
    main()
