"""``docs/states.md``, from the tables of transitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import getdoc
from typing import Any, Final

from generators.markdown import row
from groupreplay.codecs.kafka_terms import VALID_PREVIOUS_STATES, ConsumerPhase, MemberPhase, Phase
from groupreplay.coordinator.consumer.consumer_group import VALID_PREVIOUS
from groupreplay.state.replay.phases import NEXT, Observed, TransitionEvent
from groupreplay.state.snapshot.modern import MEMBER_STATES, STABLE_STATE, STATES

_INTRO: Final = """\
# The states of groups

This page is made from the code by `make docs`; a test fails when it is out of date.
States are spelled as Kafka spells them.

## The broker's states, and what the log shows of them

The coordinator keeps these states in memory. `simulate` writes every change of them (`night.truth.jsonl`), and with
`--trace` the steps that lead to it ([trace.md](trace.md)). Both come from a model of the coordinator. The tables below
are those of the model: a transition that is not in them raises an error, as it does in Kafka (`ClassicGroupState`).

`groupreplay describe --group G --states` prints the states of a real group over time, with the bounds of what the log
shows; a property test compares them with the true states of every simulated scenario.
"""

_CLASSIC: Final = """\
## Classic groups

This is how the job replays a classic group. The table has everything that can be seen in each state: the next state,
and the event that is emitted. Every cell is filled, because the log is compacted and may begin anywhere: nothing that
is seen may be refused. Of the broker's five states, Empty, Stable and Dead follow from records. The two states of a
rebalance in progress follow only from answers of the broker; an answer changes the state and is never an event.

`group.created` and `rebalance.completed` contain only what the record proves (`history`, `evidence` in
[events.md](events.md)).
"""

_MODERN: Final = """\
## Consumer, share and streams groups

The state of these groups is in no record. The broker derives it from epochs, members and assignments, and so
does the replay, after each operation and never inside one: a heartbeat writes up to a dozen records, and
between them a group seems to be Empty, Assigning or gone. The rules are tried in order; the first that holds
gives the state. A group without any record is `Dead`.
"""

#: State of a classic group -> what its records say about it.
_SHOWN: Final[Mapping[Phase, str]] = {
    Phase.EMPTY: (
        "A record without members: its `current_state_timestamp` is the time of the change. A group that begins with its "
        "first member writes generation 0 (before Kafka 4.0 it writes nothing); one that begins with a commit has no "
        "record of its own, only the offset."
    ),
    Phase.PREPARING_REBALANCE: (
        "Nothing. It began after the record before, and ended at the `current_state_timestamp` of the next one: an "
        "interval. The answers of the prober make it narrower. A coordinator that moves loses it: the next one loads the "
        "generation before, as Stable."
    ),
    Phase.COMPLETING_REBALANCE: (
        "Its begin is the `current_state_timestamp` in the record of the generation; its end is the time of that record. "
        "A generation whose leader never sends its assignment leaves no record: the next number is skipped."
    ),
    Phase.STABLE: (
        "Its begin is the time of the record of the generation. A record of the same generation, for a static member that "
        "comes back, is no change. The end is not written."
    ),
    Phase.DEAD: "The group's tombstone: its time is the time of the change. Before Kafka 4.0 a simple group has none.",
}
#: The same for a consumer group: its state follows from its records.
_DERIVED: Final[Mapping[ConsumerPhase, str]] = {
    ConsumerPhase.EMPTY: "The tombstones of the last member, with a new epoch.",
    ConsumerPhase.ASSIGNING: "The group epoch is above the target assignment's, in one operation: exact.",
    ConsumerPhase.RECONCILING: "A target assignment, or a member's current assignment, that is not yet the target's: exact.",
    ConsumerPhase.STABLE: "The current assignment of the last member that was behind: exact.",
    ConsumerPhase.DEAD: "The tombstones of the group.",
}

#: States that the log alone can lead to.
_WRITTEN: Final = (Phase.DEAD, Phase.EMPTY, Phase.STABLE)


def _broker_states() -> list[str]:
    """A table for each of the two kinds of groups that the model has."""
    lines = [
        "### Of a classic group",
        "",
        row("state", "entered from", "what the log shows"),
        row(*["---"] * 3),
    ]
    for phase, before in VALID_PREVIOUS_STATES.items():
        names = ", ".join(one.value for one in Phase if one in before)
        lines.append(row(phase.value, "any state" if len(before) == len(Phase) else names, _SHOWN[phase]))
    lines += ["", "### Of a consumer group", ""]
    lines += [
        "A classic group may become a consumer group and the other way round: `classic` marks its states.",
        "",
    ]
    lines += [row("state", "entered from", "what the log shows"), row(*["---"] * 3)]
    for state, olds in VALID_PREVIOUS.items():
        if isinstance(state, ConsumerPhase):
            names = ", ".join(sorted(map(_kind_and_name, olds)))
            lines.append(row(state.value, names, _DERIVED[state]))
        else:
            names = ", ".join(sorted(one.value for one in olds))
            lines.append(
                row(
                    _kind_and_name(state),
                    names,
                    "A classic record behind the tombstones of the consumer group.",
                )
            )
    return lines


def _kind_and_name(state: Phase | ConsumerPhase) -> str:
    return state.value if isinstance(state, ConsumerPhase) else f"{state.value} (classic)"


def _transitions() -> list[str]:
    lines = [row("seen", *(f"in {phase.value}" for phase in Phase)), row(*["---"] * (len(Phase) + 1))]
    for seen in Observed:
        cells = [NEXT[phase][seen] for phase in Phase]
        lines.append(row(seen.value, *map(_cell, cells)))
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
        lines += [f"### {kind.value}", "", row("", "state", "when"), row("---", "---", "---")]
        lines += [
            row(str(place), name, _first_line(rule)) for place, (name, rule) in enumerate(rules, start=1)
        ]
        lines += [row(str(len(rules) + 1), STABLE_STATE, "none of these holds"), ""]
    return lines


def _members() -> list[str]:
    lines = ["### Members", "", row("state", "consumer, share", "streams", "meaning"), row(*["---"] * 4)]
    for number, phase in enumerate(MemberPhase):
        written = (str(number), str(number + 1)) if phase is not MemberPhase.UNKNOWN else ("other", "other")
        lines.append(row(phase.value, *written, MEMBER_STATES[phase]))
    return lines


def page() -> str:
    """The whole page as Markdown."""
    lines = [
        _INTRO,
        *_broker_states(),
        "",
        _CLASSIC,
        *_transitions(),
        "",
        "The same as a diagram, without answers of the broker and without what changes nothing:",
        "",
    ]
    lines += [*_diagram(), "", _MODERN, *_rules(), *_members()]
    return "\n".join(lines).rstrip() + "\n"
