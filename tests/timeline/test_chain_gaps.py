"""What is said in the place of links that are missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupreplay.timeline.causes import CAUSES
from groupreplay.timeline.chain_gaps import gaps
from groupreplay.timeline.episodes import Episode
from groupreplay.timeline.stop_cost import Backlog
from timeline.test_conclusions import SECOND, stuck
from timeline.test_episodes import FACTS, told
from timeline.test_stop_cost import T, ends, log_of


def test_what_is_not_known() -> None:
    """No cause, no trigger, a begin before the first record, no prober: each is said."""
    episode = replace(stuck(suspects_note="nobody has committed"), until_ms=None)
    facts = replace(FACTS, probed=False, begins_inside=True, since_ms=100 * SECOND)
    assert gaps(episode, None, (), facts) == (
        "The cause is not known: nobody has committed.",
        "What began the rebalance is not known.",
        "It had begun when the records begin: what was before is not known.",
        "No prober asked the brokers: a rebalance is seen when it has ended, and not whom it waited for.",
    )


@pytest.mark.parametrize(
    ("answers", "committed", "told"),
    [
        (
            None,
            7,
            "The cause is not known: the log does not show whether the topic had new records.",
        ),
        (
            ((0, 7), (400, 90)),
            7,
            "The cause is not known: the log does not show whether the topic had new records.",
        ),
        (((0, 7), (150, 8), (290, 90), (400, 90)), 7, "The cause is not known: the topic had new records."),
        (((0, 7), (100, 7), (290, 7), (400, 7)), 7, "No cause is stated: no record waited."),
        (
            ((0, 7), (100, 7), (290, 7), (400, 7)),
            2,
            "The cause is not known: the log does not show whether the topic had new records.",
        ),
    ],
    ids=["no ends", "perhaps", "new records", "none", "a backlog"],
)
def test_a_time_without_commits(
    answers: tuple[tuple[int, int], ...] | None, committed: int, told: str
) -> None:
    """Recorded ends show whether there was something to commit; without them nothing does."""
    spans = ends(*((SECOND * at, end) for at, end in answers or ()))
    backlog = Backlog(log_of([(T, 0, committed)]), lambda *_: spans) if answers else None
    episode = replace(stuck(), sign="commits.paused")
    assert gaps(episode, None, (), replace(FACTS, backlog=backlog)) == (told,)


def test_a_transaction_that_hangs() -> None:
    """The producer is known; whether it lives is not, nor does a prober see what is behind it."""
    (cause,) = (cause for cause in CAUSES if cause.name == "hanging_transaction")
    producer = {"producer_id": 4_711, "producer_epoch": 3}
    event = told("transaction.hanging", 150, "WARN", evidence="log", **producer)
    episode = Episode(sign=event.name, since_ms=100, until_ms=None, severity="WARN", event=event)
    why = (
        "Why producer 4711 (epoch 3) has not ended its transaction is not known: the log does not show whether it "
        "lives."
    )
    assert gaps(episode, cause, (), FACTS) == (why,)
    probed = replace(episode, event=told(event.name, 150, "WARN", evidence="probe", **producer))
    assert gaps(probed, cause, (), FACTS) == (
        why,
        "The prober sees later transactions of the same partition only when this one has ended.",
    )
    assert gaps(replace(probed, until_ms=900), cause, (), FACTS) == (
        "Why producer 4711 (epoch 3) did not end its transaction is not known.",
    )
