"""Writes this version's states of a few groups into stored_states.json: every later release must continue from them.

Run ``cd tests && python -m golden.refresh_stored_states`` when the layout of snapshots changes, and with ``--release``
for a release: then it also adds the forms of its conditions to stored_conditions.json.
"""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

import groupreplay
from groupreplay.streaming.contract.probe_messages import encode_message
from support.histories.builders import asked_for, commit, emptied, generation, gone, member, no_offset
from support.histories.group_writer import life_cut_inside_a_rebalance
from support.histories.raw_records import Raw
from support.histories.raw_records import commit as raw_commit
from support.histories.samples import one_of_each, written
from support.job.captures import raw
from support.job.probes import asked, beat, summed_up
from support.stored import conditions
from support.stored.states import CONTEXT, FILE, load, part, replay_half

MINUTE = 60_000


def histories() -> dict[str, Any]:
    """Histories that are each divided at a moment when something is in progress."""
    one, two, three = member("one", [0, 1]), member("two", [2]), member("three", [3])
    rounds = [asked_for(at=MINUTE), generation(1, one, at=2 * MINUTE), generation(2, one, two, at=3 * MINUTE)]
    commits = [commit("t", n, 10 * turn, at=(3 + turn) * MINUTE) for turn in range(4) for n in range(4)]
    later = [
        generation(3, one, three, at=9 * MINUTE),
        commit("t", 0, 3, at=10 * MINUTE),
        emptied(4, at=11 * MINUTE),
    ]
    ending = [*(no_offset("t", n, at=20 * MINUTE) for n in range(4)), gone(at=20 * MINUTE)]
    answers = [asked("g", "PreparingRebalance", at=at) for at in range(8 * MINUTE, 9 * MINUTE, 10_000)]
    watched = [
        *(beat(at=at, caught_up=MINUTE) for at in range(2 * MINUTE, 30 * MINUTE, MINUTE)),
        *(summed_up(at=at, rights="missing") for at in range(30 * MINUTE, 40 * MINUTE, MINUTE)),
    ]
    bad = [Raw(0, place, MINUTE * place, raw_commit("bad")[0], b"\x00\x04") for place in range(9)]
    made = {
        "a classic group between two rounds": _group([*rounds, *commits], [*later, *ending]),
        "a classic group inside an operation": _group([*rounds, *commits, *later, *ending[:2]], ending[2:]),
        "a classic group that is stuck": _group([*rounds, *commits], later, probes=answers, split=4),
        "offsets of nobody": _group(
            commits, [no_offset("t", 1, at=9 * MINUTE), commit("t", 1, 2, at=10 * MINUTE)]
        ),
        "bad records": {
            "key": "x:0",
            "before": part(bad[:4], [], 9 * MINUTE),
            "after": part(bad[4:], [], 9 * MINUTE),
        },
        "the job itself": {
            "key": "j:",
            "before": part([], _messages(watched[:20]), 0),
            "after": part([], _messages(watched[20:], first=20), 0),
        },
    }
    for kind in ("consumer", "share", "streams"):
        made[f"a {kind} group inside a rebalance"] = _group(*life_cut_inside_a_rebalance(kind))
    return made


def _group(before: Sequence[Any], after: Sequence[Any], *, probes: Sequence[Any] = (), split: int = 0) -> Any:
    """The history of a group; its probes are divided at ``split``."""
    raws = raw([*before, *after], partition=0)
    first, rest = raws[: len(before)], raws[len(before) :]
    until_ms = probes[split].taken_ms - 1 if probes else first[-1].timestamp_ms
    return {
        "key": "g:g",
        "before": part(first, _messages(probes[:split]), until_ms),
        "after": part(rest, _messages(probes[split:], first=split), rest[-1].timestamp_ms + 1),
    }


def _messages(messages: Sequence[Any], *, first: int = 0) -> list[Raw]:
    ours = [replace(one, cluster_id=CONTEXT.cluster_id) for one in messages]
    return [Raw(0, place, 0, *encode_message(one)) for place, one in enumerate(ours, first)]


def main(words: list[str]) -> None:
    """Writes the files."""
    stored = load()
    # A history that a release has states of stays as it was then.
    of_releases = [
        states for version, states in stored["states"].items() if version != groupreplay.__version__
    ]
    kept = {name for states in of_releases for name in states}
    earlier = {name: history for name, history in stored["histories"].items() if name in kept}
    stored["histories"] = {**histories(), **earlier}
    states = stored["states"][groupreplay.__version__] = {}
    for name, history in stored["histories"].items():
        blob, _ = replay_half(history["key"], None, history["before"])
        if blob is not None:
            states[name] = b64encode(blob).decode()
    FILE.write_text(json.dumps(stored, indent=0) + "\n")
    if "--release" not in words:
        return
    forms = conditions.with_new_forms(conditions.load(), map(written, one_of_each()))
    conditions.FILE.write_text(json.dumps(forms, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
