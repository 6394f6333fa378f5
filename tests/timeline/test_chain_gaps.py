"""What is said in the place of links that are missing."""

from __future__ import annotations

from dataclasses import replace

from groupreplay.timeline.chain_gaps import gaps
from timeline.test_conclusions import SECOND, stuck
from timeline.test_episodes import FACTS


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
