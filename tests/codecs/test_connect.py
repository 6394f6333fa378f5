"""Kafka Connect's blobs."""

import pytest

from groupreplay.codecs import (
    ConnectAssignment,
    ConnectMetadata,
    ConnectorTasks,
    Malformed,
    decode_blob,
    encode_blob,
)

URL = "0009" + b"http://h/".hex()
TASKS = "00000001" + "000163" + "00000002" + "ffffffff" + "00000000"
ALLOCATION = "0001" + "0000" + "00016c" + URL + "0000000000000005" + TASKS + "ffffffff" + "00000000"


@pytest.mark.parametrize(
    ("metadata", "data"),
    [
        (ConnectMetadata(version=0, url="http://h/", config_offset=5), "0000" + URL + "0000000000000005"),
        (
            ConnectMetadata(version=1, url="http://h/", config_offset=5),
            "0001" + URL + "0000000000000005" + "ffffffff",
        ),
        (
            ConnectMetadata(
                version=2, url="http://h/", config_offset=5, allocation=bytes.fromhex(ALLOCATION)
            ),
            "0002" + URL + "0000000000000005" + f"{len(ALLOCATION) // 2:08x}" + ALLOCATION,
        ),
    ],
)
def test_metadata(metadata: ConnectMetadata, data: str) -> None:
    """`default` has url and config offset; `compatible` and `sessioned` append the running tasks or null."""
    assert decode_blob(ConnectMetadata, bytes.fromhex(data)) == metadata
    assert encode_blob(metadata).hex() == data


def assignment(version: int, **more: object) -> ConnectAssignment:
    """An assignment of connector c and its task 0."""
    return ConnectAssignment(
        version=version,
        error=0,
        leader="l",
        leader_url="http://h/",
        config_offset=5,
        assigned=(ConnectorTasks(connector="c", tasks=(-1, 0)),),
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("expected", "data"),
    [
        (assignment(0), "0000" + "0000" + "00016c" + URL + "0000000000000005" + TASKS),
        (assignment(1), ALLOCATION),
        (
            assignment(2, revoked=(), delay_ms=300_000),
            "0002" + ALLOCATION[4:-16] + "00000000" + "000493e0",
        ),
    ],
)
def test_assignment(expected: ConnectAssignment, data: str) -> None:
    """The later protocols append revoked tasks and a delay; version 2 is the same as version 1."""
    assert decode_blob(ConnectAssignment, bytes.fromhex(data)) == expected
    assert encode_blob(expected).hex() == data


def test_assigned_may_be_null_in_version_0() -> None:
    """Kafka lets the list be null since version 1; reading it in version 0, too, does no harm."""
    data = bytes.fromhex("0000" + "0000" + "00016c" + URL + "0000000000000005" + "ffffffff")
    value = decode_blob(ConnectAssignment, data)
    assert isinstance(value, ConnectAssignment)
    assert value.assigned is None


def test_an_assignment_is_never_empty() -> None:
    """Zero bytes are not an assignment of Connect."""
    assert decode_blob(ConnectAssignment, b"") == Malformed(
        None, None, "version", 0, "needs 2 bytes, 0 are left"
    )
