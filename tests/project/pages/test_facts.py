"""Facts in the pages about times, terms and other tools."""

from __future__ import annotations

import re

import pytest

from groupreplay.app.exporter.metric_catalog import STATES
from groupreplay.app.text.times import date_time, given_time
from groupreplay.streaming.base.clock import UTC, time_zone
from support.paths import ROOT

DOCS = ROOT / "docs"
TIMES = (DOCS / "time.md").read_text(encoding="utf-8")
GLOSSARY = (DOCS / "glossary.md").read_text(encoding="utf-8")
COMPARISON = (DOCS / "comparison.md").read_text(encoding="utf-8")
END_MS = 1_769_826_600_000


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table after a text, without its head."""
    lines = page[page.index(heading) :].splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("| "))
    table = [line for line in lines[first + 2 :] if line.startswith("| ") or line == ""]
    table = table[: table.index("") if "" in table else None]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


@pytest.mark.parametrize(("written", "in_utc", "in_berlin"), rows(TIMES, "## In flags"))
def test_a_time_means_what_the_page_says(written: str, in_utc: str, in_berlin: str) -> None:
    """In UTC and in another zone, counted from the end that the page names."""
    assert date_time(END_MS, UTC).startswith("2026-01-31 02:30:00")
    given = given_time(written.strip("`"))
    found = [date_time(given.at_ms(END_MS, zone), UTC) for zone in (UTC, time_zone("Europe/Berlin"))]
    assert found == [in_utc, in_berlin]


def test_the_forms_are_all_there() -> None:
    """Of each way to write a time there is an example: with and without a zone, of a day, an age, now, a number."""
    given = [given_time(row[0].strip("`")) for row in rows(TIMES, "## In flags")]
    fields = ("absolute_ms", "age_ms", "wall", "clock")
    assert {name for name in fields for one in given if getattr(one, name) is not None} == set(fields)


def test_the_glossary_is_sorted() -> None:
    """By the alphabet, each term once, none without a meaning."""
    terms = [row[0].removesuffix("◆").strip() for row in rows(GLOSSARY, "# Glossary")]
    assert terms == sorted(set(terms), key=str.lower)
    assert all(row[1] for row in rows(GLOSSARY, "# Glossary"))


def test_the_glossary_has_every_state() -> None:
    """The states are those that Kafka's coordinators have."""
    assert {row[0].strip("`") for row in rows(GLOSSARY, "## States of a group")} == set(STATES)


def test_every_statement_about_another_tool_has_a_source() -> None:
    """Each number in the table is a source of the list below it, and each source is used."""
    table = " ".join(" ".join(row) for row in rows(COMPARISON, "# Comparison"))
    used = {number for group in re.findall(r"\[([\d, ]+)\]", COMPARISON) for number in group.split(", ")}
    listed = set(re.findall(r"^(\d)\. .*https://github[.]com/|^(\d)\. ", COMPARISON, re.MULTILINE))
    assert used == {number for pair in listed for number in pair if number}
    assert table.count("[1]") > 1
