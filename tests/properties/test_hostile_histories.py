"""Hostile histories quarantine no group, and every call ends soon with a bounded state."""

from __future__ import annotations

import json

import jsonschema
import pytest

from groupreplay.state import Group
from groupreplay.state.output.schemas import json_schemas
from groupreplay.streaming.engine.wire import GROUP_TAG
from groupreplay.streaming.text.event_text import line_of
from support.tools.hostile import history
from support.tools.survival import CONTEXT, Survivor, events

#: CPU time; about twice what the dearest call needs, which evaluates as many deadlines as a call may.
MOST_CALL_SECONDS = 1.0
MOST_STATE_BYTES = 1 << 20


@pytest.mark.parametrize("first", range(0, 500, 50))
def test_nothing_hostile_harms(first: int) -> None:
    """Extreme numbers, times, partitions, timeouts, ids and orders, in batches, with a restored state for each call.

    What comes out can be described, is valid by its schema, and has a line on the terminal.
    """
    validators = {name: jsonschema.Draft202012Validator(schema) for name, schema in json_schemas().items()}
    for seed in range(first, first + 50):
        survivor = Survivor()
        survivor.live(history(seed))
        written = [json.loads(one) for one in events(survivor.rows)]
        assert [one["data"] for one in written if "quarantined" in one["type"]] == [], seed
        assert survivor.dearest_seconds < MOST_CALL_SECONDS, seed
        assert max(map(len, survivor.blobs.values()), default=0) < MOST_STATE_BYTES, seed
        of_each_type = {one["type"]: one for one in written}
        for name, one in of_each_type.items():
            validators[name.removeprefix("groupreplay.").removesuffix(".v1")].validate(one)
        for one in written:
            assert line_of(one).plain().isprintable(), seed
        for key, blob in survivor.blobs.items():
            if key.startswith(GROUP_TAG):
                Group.from_snapshot(key[len(GROUP_TAG) :].decode(), CONTEXT, blob).describe()
