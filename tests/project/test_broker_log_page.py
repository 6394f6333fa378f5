"""The page about the lines of the coordinator has every line that Kafka's jars have: used, or why it is not."""

from __future__ import annotations

import re
from typing import Final

import pytest

from groupreplay.streaming.broker_log.lines import broker_line
from support.kafka.log_lines import log_lines
from support.paths import ROOT

VERSIONS = ("3.9.1", "4.3.1", "4.4.0")
#: Values with which a line may be one that is used: members of Scala's coordinator and reasons of the fencing.
VALUES: Final = ("7", "[7]", "the member session expired", "MemberMetadata(memberId=7, groupInstanceId=None)")
_NOT_USED: Final = re.compile(r"^- (`+) ?(.+?) ?\1$", re.MULTILINE)


def is_used(text: str) -> bool:
    """Whether ``--broker-log`` takes something from the line."""
    lines = (text.replace("{}", value) for value in VALUES)
    return any(broker_line(f"[GroupCoordinator id=1] {line}") is not None for line in lines)


@pytest.fixture(scope="module")
def texts() -> set[str]:
    """The lines of all releases."""
    return {line.text.strip() for version in VERSIONS for line in log_lines(version)}


def test_every_line_is_used_or_on_the_page(texts: set[str]) -> None:
    """A new release shows what is new; a line that no release has is not on the page."""
    page = (ROOT / "docs" / "broker-log.md").read_text("utf-8")
    not_used = [text for _, text in _NOT_USED.findall(page)]
    assert sorted(not_used) == sorted(text for text in texts if not is_used(text))


def test_lines_that_are_known(texts: set[str]) -> None:
    """What is read out of the jars is what the two coordinators are known to write."""
    assert {
        "Preparing to rebalance group {} in state {} with old generation {} (__consumer_offsets-{}) (reason: {})",
        "Preparing to rebalance group {} in state {} with old generation {} (reason: {}).",
        "Stabilized group {} generation {} (__consumer_offsets-{}) with {} members",
        "[GroupId {}] Scanned {} topics to refresh regular expressions {} in {}ms.",
    } <= texts
    assert len(texts) > 200
