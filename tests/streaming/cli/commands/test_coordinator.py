"""``groupreplay coordinator`` on the command line."""

from __future__ import annotations

import json

from support.job.captures import invoke


def test_coordinator() -> None:
    """The partition of a group, in every format; without a broker nobody knows the leader."""
    assert invoke("coordinator", "testgroup").stdout == (
        "GROUP\tPARTITION\tCOORDINATOR (ID)\ntestgroup\t27\t-\n"
    )
    assert json.loads(invoke("coordinator", "my-group", "--partitions", "7", "-o", "jsonl").stdout) == {
        "group_id": "my-group",
        "partition": 1,
        "coordinator": None,
    }
    assert invoke("coordinator", "=x", "-o", "csv").stdout.splitlines()[1].startswith("'=x,")
    assert invoke("coordinator", "x", "--partitions", "0").exit_code == 2
