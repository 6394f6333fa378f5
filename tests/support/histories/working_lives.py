"""Groups at work for hours: one owner or all fall silent and go on, offsets stay and move, in generations."""

from __future__ import annotations

import random

from support.histories.builders import Raw, asked_for, commit, generation, member
from support.histories.commit_lives import START

SECOND = 1_000
#: How often each member commits all its partitions, unless it is silent.
EVERY_MS = 5 * SECOND
#: At first nobody is silent, and later so few that the usual gap stays what it is: it counts all that was read.
_WARM_UP_MS = 600 * SECOND
#: Below and above the limits of conditions: the session, ten usual gaps, a quarter of an hour.
_SILENCES_S = (20, 50, 83, 90, 130, 400)
#: Pauses of all members, after which each of them goes on a little later than the one before.
_PAUSES_S = (20, 42, 75, 99, 110, 200)
_STAYS_S = (60, 700, 930, 1_500, 3_000)
_ROUNDS_S = (60, 200, 400, 1_300)


def working(seed: int, minutes: int = 90) -> list[Raw]:
    """A group of two or three members with two partitions each."""
    draw = random.Random(seed)
    names = "abc"[: draw.choice((2, 3))]
    silent_to, stays_to = dict.fromkeys(names, 0), dict.fromkeys(range(2 * len(names)), 0)
    offsets = dict.fromkeys(stays_to, 5)
    number, next_round = 0, 0
    history = [asked_for(at=START - 1)]
    for at in range(0, minutes * 60 * SECOND, EVERY_MS):
        if at >= next_round:
            number, next_round = number + 1, at + draw.choice(_ROUNDS_S) * SECOND
            members = [member(name, [2 * place, 2 * place + 1]) for place, name in enumerate(names)]
            history.append(generation(number, *members, at=START + at))
        if at > _WARM_UP_MS and draw.random() < 0.004:
            pause_s = draw.choice(_PAUSES_S)
            for name in names:
                silent_to[name] = max(silent_to[name], at + (pause_s + draw.choice((0, 5, 30))) * SECOND)
        for place, name in enumerate(names):
            if at > _WARM_UP_MS and silent_to[name] <= at and draw.random() < 0.01:
                silent_to[name] = at + draw.choice(_SILENCES_S) * SECOND
            if silent_to[name] > at:
                continue
            for partition in (2 * place, 2 * place + 1):
                if stays_to[partition] <= at and draw.random() < 0.02:
                    stays_to[partition] = at + draw.choice(_STAYS_S) * SECOND
                moves = stays_to[partition] <= at and draw.random() < 0.7
                offsets[partition] += 7 if moves else 0
                committed_ms = START + at + 100 + 700 * place
                history.append(commit("t", partition, offsets[partition], at=committed_ms))
    return history
