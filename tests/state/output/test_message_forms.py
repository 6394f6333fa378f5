"""The fields that readers decode are fields that the job writes."""

from __future__ import annotations

import msgspec
import pytest

from groupreplay.state.output.message_forms import ConditionForm, EventHead, GroupHead, OffsetSums
from support.job.sink_messages import document, events, stuck

GROUP, EMITTED = stuck()
DOCUMENT = msgspec.json.decode(document(GROUP))


@pytest.mark.parametrize(
    ("form", "written"),
    [
        (EventHead, msgspec.json.decode(events(EMITTED)[0])),
        (GroupHead, DOCUMENT),
        (OffsetSums, DOCUMENT["offsets"]),
        (ConditionForm, DOCUMENT["conditions"][0]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_field_is_written(form: type[msgspec.Struct], written: dict[str, object]) -> None:
    """Under the same name and with a value of its type: a default would hide that it is missing."""
    assert {*form.__struct_fields__} - written.keys() == set()
    decoded = msgspec.to_builtins(msgspec.convert(written, form))
    nested = {"offsets"}
    assert {name: value for name, value in decoded.items() if name not in nested} == {
        name: written[name] for name in form.__struct_fields__ if name not in nested
    }
