"""Which event goes next: for every history of a receiver nothing is lost, order is kept, and nothing runs hot."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from groupreplay.streaming.delivery.deliveries import Answer, Deliveries, Waiting

AWAY = Answer("away")
REFUSED = Answer("no", is_refused=True)
DONE = Answer()
HOUR_MS = 3_600_000


def filled(*subjects: str) -> Deliveries:
    """An event of each of these subjects waits, numbered from 0."""
    deliveries = Deliveries()
    for number, subject in enumerate(subjects):
        deliveries.add(Waiting(number, subject, b""))
    return deliveries


def attempts(
    deliveries: Deliveries, answers: dict[int, Answer], until_ms: int, now_ms: int = 0
) -> list[tuple[int, int]]:
    """(time, number) of each attempt; what is not in ``answers`` arrives."""
    made = []
    while now_ms <= until_ms:
        while (waiting := deliveries.due(now_ms)) is not None:
            made.append((now_ms, waiting.number))
            deliveries.note(waiting, answers.get(waiting.number, DONE), now_ms)
        now_ms += 1_000
    return made


def test_an_outage_of_an_hour() -> None:
    """The same event is tried with pauses that grow to a minute; then all arrive in order, each once."""
    deliveries = filled("a", "b", "a")
    during = attempts(deliveries, dict.fromkeys(range(3), AWAY), HOUR_MS)
    assert {number for _, number in during} == {0}
    assert [at_ms // 1_000 for at_ms, _ in during][:8] == [0, 1, 3, 7, 15, 31, 63, 123]
    assert len(during) < 70
    assert (deliveries.waiting, deliveries.trouble) == (3, "away")
    after = attempts(deliveries, {}, 2 * HOUR_MS, HOUR_MS + 60_000)
    assert [number for _, number in after] == [0, 1, 2]
    assert (deliveries.waiting, deliveries.delivered, deliveries.trouble) == (0, 3, "")


def test_a_receiver_that_asks_for_a_pause() -> None:
    """It gets it, up to an hour."""
    deliveries = filled("a")
    made = attempts(deliveries, {0: Answer("busy", pause_ms=120_000)}, 130_000)
    assert [at_ms for at_ms, _ in made] == [0, 120_000]


def test_one_event_that_is_refused() -> None:
    """It is kept with the later ones of its subject, in order; the others go on at once."""
    deliveries = filled("bad", "good", "bad", "good")
    made = attempts(deliveries, {0: REFUSED}, 60_000)
    assert made == [(0, 0), (0, 1), (0, 3), (60_000, 0)]
    assert (deliveries.waiting, deliveries.set_aside) == (2, 2)
    assert [number for _, number in attempts(deliveries, {}, 300_000, 61_000)] == [0, 2]


def test_a_receiver_that_refuses_everything() -> None:
    """For a day: a few attempts an hour, whatever waits, and all of it is there when it takes them."""
    deliveries = filled(*(f"group-{number}" for number in range(500)))
    made = attempts(deliveries, dict.fromkeys(range(500), REFUSED), 24 * HOUR_MS)
    by_hour = [sum(at_ms // HOUR_MS == hour for at_ms, _ in made) for hour in range(24)]
    assert max(by_hour) < 60
    assert deliveries.waiting == 500
    after = attempts(deliveries, {}, 27 * HOUR_MS, 24 * HOUR_MS)
    assert sorted(number for _, number in after) == list(range(500))


SUBJECTS = st.lists(st.sampled_from("abc"), max_size=12)
HISTORY = st.lists(st.sampled_from([DONE, AWAY, REFUSED, Answer("busy", pause_ms=90_000)]), max_size=60)


@given(SUBJECTS, HISTORY)
def test_every_history(subjects: list[str], history: list[Answer]) -> None:
    """Each event arrives once, those of a subject in order, as soon as the receiver takes them again."""
    deliveries = filled(*subjects)
    answers, now_ms = iter(history), 0
    arrived = defaultdict[str, list[int]](list)
    while deliveries.waiting:
        now_ms += 1_000
        while (waiting := deliveries.due(now_ms)) is not None:
            answer = next(answers, DONE)
            deliveries.note(waiting, answer, now_ms)
            if not answer.trouble:
                arrived[waiting.subject].append(waiting.number)
        assert now_ms < 200 * HOUR_MS
    for subject in set(subjects):
        assert arrived[subject] == [number for number, name in enumerate(subjects) if name == subject]
    assert deliveries.delivered == len(subjects)
