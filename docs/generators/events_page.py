"""``docs/events.md``, from the declarations."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec

from groupreplay.state.conditions.condition import Condition
from groupreplay.state.conditions.detection import Detector
from groupreplay.state.conditions.registry import CONDITIONS, DETECTORS
from groupreplay.state.events.event import Fact
from groupreplay.state.output.envelope import EVENTS, FACTS, event_schema

_INTRO: Final = """\
# The sink: topics, envelope, events

This page is made from the code by `make docs`; a test fails when it is out of date.
`groupreplay schema` prints the same contract as JSON Schemas.

## Topics

| topic (default name) | clean-up | key | value |
| --- | --- | --- | --- |
| `group-events` | delete, 30 days | group id | events, as CloudEvents 1.0 in structured JSON |
| `group-states` | compact | group id | the group's current document; a tombstone when the group is deleted. `suppressed` counts by \
name the events that were not emitted, because the group repeated the same within a minute, and that no later event has told yet |
| `group-dead-letters` | delete, 30 days | `topic-partition-offset` | records that could not be decoded: position, \
reason, and up to 64 KiB of their bytes (none with `--redact`); messages of the job that are too large for their topic \
(`kind` is `too_large`, no position, `output` is the topic) |
| `group-job` | compact | reserved keys | the job's own state: caught-up time, lag, batch time, counters, the last \
round of the prober, whether its query reads; the active conditions of the job, and the state behind them; the claim of \
the run that writes the topics |
| `group-probes` | delete, 30 days | group id; a reserved key for rounds and heartbeats | the brokers' answers \
about groups that were rebalancing, the result of each round of the prober, the ends of partitions, and the job's heartbeats and requests \
([fields](internals.md#messages-in-group-probes)) |

Reserved keys begin with a NUL byte; no group id does. Events are at most 64 KiB and documents at most 256 KiB: lists
and texts that do not fit are cut, counts are kept, and `truncated` is true.

## How to read events

- Delivery is at least once. `id` is made from the position of the cause in the log, so a repeated event has the same
  id: keep the ids of the last hour and drop events whose id is among them. Events about the job itself that were emitted
  while its query stood still are repeated with `catch_up` when the query is back, which may be hours later.
- `evidence` is the proof of an event: `log` (a record), `probe` (an answer of a broker) or `inferred` (a rule concludes
  it, for example from elapsed time).
- `history` is `partial` until the group's history is known without a gap. The topic is compacted: the first record of
  a group may be its thousandth generation. What cannot be known then is null, never a guess.
- `catch_up` is true when an event was recorded more than a minute after it happened, after an outage of the job or
  of the cluster. Do not alert on such events.
- Events of the time before the first start of the job are not emitted, except with `--backfill-events`.
- A member's *slot* is its instance id, else its client id and host if no other present member has both, else its
  member id. A restarted member keeps its slot, and counts as neither joined nor left.
- Whether a group *matters* is decided by the rules or by its history ([monitoring.md](monitoring.md#groups-that-matter)).
- Partitions are written as ranges by topic: `{"orders": "0-3,7"}`.
- `member.joined`, `member.updated`, and `member.left` of severity INFO are emitted only with `--member-events`.
  `rebalance.completed` has the same information.
"""

_FROM_SLOW_ON: Final = """\
Events from `rebalance.slow` on are [conditions](#conditions): one event when it begins and one when it ends. The others
are [facts](#facts).
"""

_CONDITIONS: Final = """\
## Conditions

A condition holds for a while. Its first event has the `status` `firing`, its last one `resolved`, both with the same
`condition_id`. When it gets worse in between, there is another `firing`. As long as it holds, it is in the group's
document. [The runbook](runbook.md) describes what to do.

The numbers below are the defaults, in the units of their names; [rules](cli.md#rules-for-groups) change them for all
groups or for some. A condition that is only inferred is never more than a warning.
"""


def _type_text(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " \\| ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        return " or ".join(_type_text(choice) for choice in schema["anyOf"])
    kind = str(schema.get("type", "any"))
    if kind == "array":
        return f"array of {_type_text(schema['items'])}"
    if kind == "object" and "properties" in schema:
        return "{" + ", ".join(f"`{name}`" for name in schema["properties"]) + "}"
    return kind


def _table(properties: dict[str, Any]) -> list[str]:
    lines = ["| field | type | meaning |", "| --- | --- | --- |"]
    for name, schema in properties.items():
        lines.append(f"| `{name}` | {_type_text(schema)} | {_meaning(schema)} |")
        lines += [
            f"| `{name}[].{inner}` | {_type_text(one)} | {_meaning(one)} |"
            for inner, one in _element(schema).items()
            if _meaning(one)
        ]
    return lines


def _element(schema: dict[str, Any]) -> dict[str, Any]:
    """The fields of an element of a list of objects; none for everything else."""
    kinds: tuple[dict[str, Any], ...] = (schema, *schema.get("anyOf", ()))
    array = next((one for one in kinds if "items" in one), {})
    properties: dict[str, Any] = array.get("items", {}).get("properties", {})
    return properties


def _meaning(schema: dict[str, Any]) -> str:
    return str(schema.get("description", "")).replace("|", "\\|")


def _fields(fact: type[Fact], without: Collection[str] = ()) -> dict[str, Any]:
    properties = event_schema(fact)["properties"]["data"]["properties"]
    return {name: schema for name, schema in properties.items() if name not in {*without, "truncated"}}


def _common(kinds: Sequence[type[Fact]], without: Collection[str] = ()) -> dict[str, Any]:
    """The fields that all of them have."""
    names = set.intersection(*(set(_fields(kind, without)) for kind in kinds))
    return {name: schema for name, schema in _fields(kinds[0]).items() if name in names}


def _detection(detector: Detector) -> list[str]:
    """The severity of its condition, the rule by which it is detected, and its thresholds."""
    rule = (inspect.getdoc(type(detector)) or "").replace("``", "`")
    lines = [
        f"Severity {detector.CONDITION.SEVERITY.name}.",
        "",
        f"Fires when: {rule[0].lower()}{rule[1:]}",
        "",
        "| number | default |",
        "| --- | --- |",
    ]
    for name in detector.thresholds():
        value = getattr(detector, name)
        lines.append(f"| `{name}` | {'as the rule says' if value is None else value} |")
    return [*lines, ""]


def _on_the_terminal(kind: type[Condition]) -> list[str]:
    """Each example as the timeline prints it."""
    texts = [kind.text(msgspec.to_builtins(one.fields)) for one in kind.EXAMPLES]
    return ["On the terminal:", "", "```text", *texts, "```", ""]


def events_table() -> str:
    """Each event and the first line of its docstring."""
    lines = ["| event | meaning |", "| --- | --- |"]
    for kind in EVENTS:
        meaning = (inspect.getdoc(kind) or "").partition("\n")[0].rstrip(".")
        lines.append(f"| `{kind.NAME}` | {meaning[0].lower()}{meaning[1:]} |")
    return "\n".join(lines)


def page() -> str:
    """The whole page as Markdown."""
    envelope = dict(event_schema(EVENTS[0])["properties"])
    envelope["type"] = {"type": "string", "description": "`groupreplay.<event>.v1`."}
    envelope["dataschema"] = {"type": "string", "description": "Names the JSON Schema of the event."}
    envelope["data"] = {"type": "object", "description": "See below."}
    lines = [_INTRO, "## All events", "", events_table(), "", _FROM_SLOW_ON]
    lines += ["## Envelope", "", *_table(envelope), ""]
    everywhere = _common(EVENTS)
    lines += ["## Fields of every `data`", "", *_table(everywhere), ""]
    lines += ["## Facts", "", "A fact is an event about something that happened once.", ""]
    for fact in FACTS:
        lines += [f"### `{fact.NAME}`", "", fact.DOC, "", *_table(_fields(fact, everywhere)), ""]
    conditional = _common(CONDITIONS, everywhere)
    lines += [_CONDITIONS, "Fields of all conditions:", "", *_table(conditional), ""]
    for detector in DETECTORS:
        kind = detector.CONDITION
        lines += [f"### `{kind.NAME}`", "", kind.DOC, "", *_detection(detector)]
        lines += [*_table(_fields(kind, {*everywhere, *conditional})), "", *_on_the_terminal(kind)]
    return "\n".join(lines).rstrip() + "\n"
