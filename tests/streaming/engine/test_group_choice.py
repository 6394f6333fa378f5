"""Groups by id or glob, and the ids that resemble one."""

from __future__ import annotations

import time

import pytest

from groupreplay.streaming.engine.group_choice import GroupChoice, is_glob, nearest

KNOWN = ["billing", "payments", "payments-eu", "search", "Search[1]", "a*b"]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ((), sorted(KNOWN)),
        (("payments",), ["payments"]),
        (("pay*",), ["payments", "payments-eu"]),
        (("payments-??", "billing"), ["billing", "payments-eu"]),
        (("[bs]*",), ["billing", "search"]),
        # Ids with characters of a glob are found by themselves, too.
        (("Search[1]",), ["Search[1]"]),
        (("a*b",), ["a*b"]),
        (("PAYMENTS",), []),
        (("*",), sorted(KNOWN)),
    ],
)
def test_what_is_chosen(patterns: tuple[str, ...], expected: list[str]) -> None:
    """An id is equal to a text or matches it; case matters, as in Kafka."""
    choice = GroupChoice(patterns)
    assert sorted(name for name in KNOWN if name in choice) == expected
    assert (choice.matched, choice.seen) == (expected, sorted(KNOWN))


def test_what_was_not_found() -> None:
    """Each text that has matched nothing, in its order; ids that are only learned match nothing."""
    choice = GroupChoice(("nope*", "search", "billing"))
    assert [name in choice for name in ("search", "other")] == [True, False]
    choice.learn(["billing"])
    assert choice.unmatched == ["nope*", "billing"]
    assert (choice.matched, choice.seen) == (["search"], ["billing", "other", "search"])


def test_ids() -> None:
    """They are known if no text is a glob, so that only their partitions need to be read."""
    assert GroupChoice(("a", "b")).ids == {"a", "b"}
    assert [GroupChoice(patterns).ids for patterns in ((), ("a", "b*"))] == [None, None]
    assert [is_glob(text) for text in ("a", "a*", "a?", "a[b]")] == [False, True, True, True]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("paymnts", ["payments", "payments-eu"]),
        ("Billing", ["billing"]),
        ("serch*", ["search", "Search[1]"]),
        ("ments-e", ["payments-eu", "payments"]),
        ("zzz", []),
        ("", []),
        ("*", []),
        ("x" * 300, []),
    ],
)
def test_nearest_names(name: str, expected: list[str]) -> None:
    """Mistyped, in another case, a part of the name; the best first; nothing where nothing is near."""
    assert nearest(name, KNOWN) == expected


def test_many_and_long_names() -> None:
    """Names that strangers chose do not make the answer slow: long ones are not compared."""
    known = [*(f"group-{number:05d}" for number in range(5_000)), *("x" * 30_000 for _ in range(50))]
    begin = time.process_time()
    assert nearest("grup-00017", known)[0] == "group-00017"
    assert time.process_time() - begin < 60
