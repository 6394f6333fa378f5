"""``docs/trace.md``, from the entries of the trace and from a trace."""

from __future__ import annotations

import random
from inspect import getdoc
from typing import Final, get_args

import msgspec

from generators.markdown import row
from groupreplay.coordinator.coordinator import Coordinator
from groupreplay.coordinator.requests import JoinGroup, Protocol, Settings
from groupreplay.coordinator.trace_entries import AnyEntry

_INTRO: Final = """\
# The trace of the coordinator

This page is made from the code by `make docs`; a test fails when it is out of date.

`groupreplay simulate --trace -o night.parquet` writes `night.trace.jsonl` beside the capture: every step of Kafka's group
coordinator, as the model takes it. No broker writes such a file. It shows what the offsets topic leaves out: requests and
answers, the votes of the members, which timer was set and when it fired, and why a rebalance began.

The names are those of Kafka 4.3.1. A branch is a method of `GroupMetadataManager`; `says` and `reason` have the text that
its log has. A test sends the same requests to the model and to a broker, and compares the trace with the broker's log.

One line is one step, in the order in which they happen in a group; `time_ms` is simulated time. The groups follow each
other by partition of the offsets topic. `groupreplay schema trace-file` prints the JSON Schema of a line.

## Reading it

```console
$ groupreplay simulate --scenario stuck --groups 5 --seconds 7200 --trace -o stuck.parquet
$ jq -c 'select(.kind == "rebalance") | [.time_ms, .group_id, .reason]' stuck.trace.jsonl
$ jq -c 'select(.kind == "awaited" and .phase == "join")' stuck.trace.jsonl
$ jq -c 'select(.kind == "answer" and .error != "NONE") | [.api, .error, .member_id]' stuck.trace.jsonl
```

A JoinGroup is answered when all members have joined: its line `answer` comes later than its line `request` and has the
same number. `waited_ms` is the time between the two, and the lines in between show the reason.
"""

_EXAMPLE: Final = """\
## An example

The first member joins a group, at 0 ms. `time_ms`, `group_id` and fields that are null are left out here.
"""


def _kinds() -> list[str]:
    lines = [row("`kind`", "what has happened", "fields"), row("---", "---", "---")]
    for entry in get_args(AnyEntry):
        told = " ".join((getdoc(entry) or "").split()).replace("``", "`").replace("|", "\\|")
        info = msgspec.inspect.type_info(entry)
        assert isinstance(info, msgspec.inspect.StructType)
        names = [field.name for field in info.fields if field.name not in ("time_ms", "group_id")]
        lines.append(row(f"`{info.tag}`", told, ", ".join(f"`{name}`" for name in names)))
    return lines


def _example() -> list[str]:
    """The steps of one JoinGroup."""
    coordinator = Coordinator("g", Settings(), random.Random(1), traced=True)
    request = JoinGroup(
        client_id="billing",
        client_host="/10.0.0.1",
        protocols=(Protocol("range", b""),),
        require_known_member_id=False,
    )
    lines = []
    for entry in coordinator.handle(request, 0).trace:
        fields = {
            name: value
            for name, value in msgspec.to_builtins(entry).items()
            if name not in ("time_ms", "group_id") and value is not None
        }
        lines.append(msgspec.json.encode(fields).decode())
    return ["```json", *lines, "```"]


def page() -> str:
    """The text of the page."""
    parts = [_INTRO, "## The kinds of steps", "", *_kinds(), "", _EXAMPLE, *_example()]
    return "\n".join(parts) + "\n"
