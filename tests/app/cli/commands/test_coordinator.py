"""``groupreplay coordinator`` on the command line."""

from __future__ import annotations

import json

from support.job.captures import invoke


def test_coordinator() -> None:
    """The partition of a group, in every format; without a broker nobody knows the leader."""
    assumed = invoke("coordinator", "testgroup")
    assert assumed.stdout == "GROUP\tPARTITION\tCOORDINATOR (ID)\ntestgroup\t27\t-\n"
    assert assumed.stderr == (
        "assumed: 50 partitions, Kafka's default of offsets.topic.num.partitions; "
        "--bootstrap-server asks a cluster, --partitions gives the number\n"
    )
    given = invoke("coordinator", "my-group", "--partitions", "7", "-o", "jsonl")
    assert given.stderr == ""
    assert json.loads(given.stdout) == {
        "group_id": "my-group",
        "partition": 1,
        "coordinator": None,
        "partitions": 7,
        "assumed": False,
    }
    assert invoke("coordinator", "=x", "-o", "csv").stdout.splitlines()[1].startswith("'=x,")
    assert invoke("coordinator", "x", "--partitions", "0").exit_code == 2
