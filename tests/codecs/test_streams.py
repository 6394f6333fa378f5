"""Streams groups."""

import pytest

from groupreplay.codecs import decode_value, encode_value, streams
from groupreplay.codecs.errors import EncodeError


def member(endpoint: streams.Endpoint | None) -> streams.StreamsGroupMemberMetadataValue:
    """A member with this endpoint."""
    return streams.StreamsGroupMemberMetadataValue(
        version=0,
        instance_id=None,
        rack_id=None,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=30,
        topology_epoch=1,
        process_id="p",
        user_endpoint=endpoint,
        client_tags=(),
    )


@pytest.mark.parametrize(
    "endpoint", [None, streams.Endpoint(host="h", port=0), streams.Endpoint(host="h", port=65_535)]
)
def test_endpoints(endpoint: streams.Endpoint | None) -> None:
    """The endpoint may be missing; its port is unsigned."""
    key = streams.StreamsGroupMemberMetadataKey(group="g", member_id="m")
    data = encode_value(member(endpoint))
    assert decode_value(key, data) == member(endpoint)
    assert (b"\xff\x01" if endpoint is None else b"\x01\x02h" + endpoint.port.to_bytes(2, "big")) in data


def test_ports_that_are_none() -> None:
    """A port beyond 16 bits is told with its path."""
    with pytest.raises(EncodeError, match=r"user_endpoint\.port: 65536 is not an uint16"):
        encode_value(member(streams.Endpoint(host="h", port=65_536)))


def test_a_record_of_4_1_has_no_validated_topology() -> None:
    """Tags that 4.2 and 4.4 added read as -1 and as no settings where they are missing."""
    data = bytes.fromhex("0000" + "00000005" + "000000000000004d" + "00")
    assert decode_value(
        streams.StreamsGroupMetadataKey(group="g"), data
    ) == streams.StreamsGroupMetadataValue(version=0, epoch=5, metadata_hash=77, last_assignment_configs=())
