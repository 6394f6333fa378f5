"""The number of groups that are set aside, over runs of the job."""

from __future__ import annotations

from groupreplay.state.job.quarantines import Quarantines, add_quarantined


def after(*heartbeats: tuple[str, str, bool, int]) -> list[tuple[int, int | None]]:
    """(groups set aside, since when) after each heartbeat: run, release, retries, count; they are a second apart."""
    state, seen = Quarantines(), []
    for at, (run, release, retries, count) in enumerate(heartbeats, 1):
        state = add_quarantined(state, run, release, retries, count, 1_000 * at)
        seen.append((state.earlier + state.counted, state.since_ms))
    return seen


def test_counted_while_the_run_goes_on() -> None:
    """From the first group on; the time is that of the first heartbeat with one."""
    run = [("a", "1", False, count) for count in (0, 1, 1, 3)]
    assert after(*run) == [(0, None), (1, 2_000), (1, 2_000), (3, 2_000)]


def test_kept_by_a_restart() -> None:
    """The same release does not try them again; its own come on top."""
    assert after(("a", "1", False, 2), ("b", "1", False, 0), ("b", "1", False, 1)) == [
        (2, 1_000),
        (2, 1_000),
        (3, 1_000),
    ]


def test_forgotten_when_tried_again() -> None:
    """Another release, or a run that was asked to, counts those that fail again."""
    assert after(("a", "1", False, 2), ("b", "2", False, 0)) == [(2, 1_000), (0, None)]
    assert after(("a", "1", False, 2), ("b", "1", True, 1)) == [(2, 1_000), (1, 1_000)]
