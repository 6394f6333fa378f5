"""``docs/events.md``, made from the declarations by ``python -m groupreplay.state.events_page``.

Knows how a schema is told to a reader; must not describe a field by itself.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from groupreplay.state.catalogue import EVENTS
from groupreplay.state.events import Fact
from groupreplay.state.schemas import event_schema

_INTRO: Final = """\
# The sink: topics, envelope, events

This page is made from the code (`python -m groupreplay.state.events_page`); a test fails when it is out of date.
`groupreplay schema` prints the same contract as JSON Schemas.

## Topics

| topic (default name) | clean-up | key | value |
| --- | --- | --- | --- |
| `group-events` | delete, 30 days | group id | events, as CloudEvents 1.0 in structured JSON |
| `group-states` | compact | group id | the group's current document; a tombstone when the group is gone |
| `group-dead-letters` | delete, 30 days | `topic-partition-offset` | records that could not be read: where, why, \
and up to 64 KiB of their bytes |
| `group-job` | compact | a reserved key | the job's own state: caught-up time, lag, batch time, counters |
| `group-probes` | delete, 30 days | a reserved key | the job's heartbeats |

Reserved keys begin with a NUL byte, which no group id does. Events are at most 64 KiB and documents at most
256 KiB: what does not fit is cut, counts are kept, and `truncated` is true.

## How to read events

- Delivery is at least once. `id` is made from the place of the cause in the log, so a repeat has the same id:
  keep the ids of the last hour and drop what you have seen.
- `evidence` says what an event rests on: `log` (a record proves it), `probe` (a live answer of the broker proves
  it), `inferred` (a rule concludes it).
- `history` is `partial` until the group's life is known without a hole. The topic is compacted: the first record of
  a group may be its thousandth generation. What cannot be known then is null, never a guess.
- `catch_up` is true when an event was recorded more than a minute after it happened, after an outage of the job or
  of the cluster. Do not alert on such events.
- Events of the time before the first start of the job are not emitted; `--backfill-events` asks for them.
- A member's *slot* is its instance id, else its client id and host where that is unique among the living, else its
  member id. A restarted member keeps its slot, and counts as neither joined nor left.
- Partitions are written as ranges by topic: `{"orders": "0-3,7"}`.
- Events about single members (`member.*`) are switched off unless they are warnings; `--member-events` asks for
  them. What they say is in `rebalance.completed`, too.
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
    lines += [
        f"| `{name}` | {_type_text(schema)} | {_meaning(schema)} |" for name, schema in properties.items()
    ]
    return lines


def _meaning(schema: dict[str, Any]) -> str:
    return str(schema.get("description", "")).replace("|", "\\|")


def _own_fields(fact: type[Fact]) -> dict[str, Any]:
    properties = event_schema(fact)["properties"]["data"]["properties"]
    return {
        name: schema for name, schema in properties.items() if name not in _common() and name != "truncated"
    }


def _common() -> dict[str, Any]:
    shared = [set(event_schema(fact)["properties"]["data"]["properties"]) for fact in EVENTS]
    names = set.intersection(*shared) - {"truncated"}
    first = event_schema(EVENTS[0])["properties"]["data"]["properties"]
    return {name: schema for name, schema in first.items() if name in names}


def page() -> str:
    """The whole page as Markdown."""
    envelope = dict(event_schema(EVENTS[0])["properties"])
    envelope["type"] = {"type": "string", "description": "`groupreplay.<event>.v1`."}
    envelope["dataschema"] = {"type": "string", "description": "Names the JSON Schema of the event."}
    envelope["data"] = {"type": "object", "description": "See below."}
    lines = [_INTRO, "## Envelope", "", *_table(envelope), ""]
    lines += ["## Fields of every `data`", "", *_table(_common()), ""]
    lines += ["## Events", ""]
    for fact in EVENTS:
        lines += [f"### `{fact.NAME}`", "", fact.DOC, "", *_table(_own_fields(fact)), ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
