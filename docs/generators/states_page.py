"""``docs/states.md``, from the tables of transitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import getdoc
from typing import Any, Final

from groupreplay.state.kafka_terms import MemberPhase, Phase
from groupreplay.state.replay.phases import NEXT, Observed, TransitionEvent
from groupreplay.state.snapshot.modern import MEMBER_STATES, STABLE_STATE, STATES

_INTRO: Final = """\
# The states of groups

This page is made from the code by `make docs`; a test fails when it is out of date.
States are spelled as Kafka spells them.

## Classic groups

A table of everything that can be seen in any state: the next state, and what is reported. It is total,
because the log is compacted and may begin in the middle: nothing that is seen may be refused. Of the broker's
five states two are written to the log, Empty and Stable; those of a rebalance in progress are reached by live
answers only, and a live answer moves the state but is never an event.

`group.created` and `rebalance.completed` are said as far as the record proves them (`history`, `evidence` in
[events.md](events.md)).
"""

_MODERN: Final = """\
## Consumer, share and streams groups

The state of these is written nowhere. The broker derives it from epochs, members and assignments, and so
does the replay, after each operation and never inside one: a heartbeat writes up to a dozen records, and
between them a group seems to be Empty, Assigning or gone. The rules are tried in order; the first that holds
names the state. A group without any record is `Dead`.
"""

#: States that the log alone can lead to.
_WRITTEN: Final = (Phase.DEAD, Phase.EMPTY, Phase.STABLE)


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _transitions() -> list[str]:
    lines = [_row("seen", *(f"in {phase.value}" for phase in Phase)), _row(*["---"] * (len(Phase) + 1))]
    for seen in Observed:
        cells = [NEXT[phase][seen] for phase in Phase]
        lines.append(_row(seen.value, *map(_cell, cells)))
    return lines


def _cell(cell: tuple[Phase, TransitionEvent]) -> str:
    phase, said = cell
    return phase.value if said is TransitionEvent.NOTHING else f"{phase.value}, `{said.value}`"


def _arrows() -> Iterable[str]:
    """What moves a classic group by the log alone; live answers lead from everywhere to everywhere."""
    for phase in _WRITTEN:
        for seen, (after, said) in NEXT[phase].items():
            live = seen.name.startswith("PROBED")
            if not live and (after, said) != (phase, TransitionEvent.NOTHING):
                yield f"    {phase.value} --> {after.value}: {seen.value}"


def _diagram() -> list[str]:
    return ["```mermaid", "stateDiagram-v2", "    [*] --> Dead", *_arrows(), "```"]


def _first_line(rule: Callable[..., Any]) -> str:
    return (getdoc(rule) or "").splitlines()[0].rstrip(".").replace("|", "\\|")


def _rules() -> list[str]:
    lines = []
    for kind, rules in STATES.items():
        lines += [f"### {kind.value}", "", _row("", "state", "when"), _row("---", "---", "---")]
        lines += [
            _row(str(place), name, _first_line(rule)) for place, (name, rule) in enumerate(rules, start=1)
        ]
        lines += [_row(str(len(rules) + 1), STABLE_STATE, "none of these holds"), ""]
    return lines


def _members() -> list[str]:
    lines = ["### Members", "", _row("state", "consumer, share", "streams", "meaning"), _row(*["---"] * 4)]
    for number, phase in enumerate(MemberPhase):
        written = (str(number), str(number + 1)) if phase is not MemberPhase.UNKNOWN else ("other", "other")
        lines.append(_row(phase.value, *written, MEMBER_STATES[phase]))
    return lines


def page() -> str:
    """The whole page as Markdown."""
    lines = [_INTRO, *_transitions(), "", "Drawn, without live answers and what changes nothing:", ""]
    lines += [*_diagram(), "", _MODERN, *_rules(), *_members()]
    return "\n".join(lines).rstrip() + "\n"
