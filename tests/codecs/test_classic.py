"""Classic groups and their members."""

from groupreplay.codecs import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    decode_value,
    encode_value,
)

KEY = GroupMetadataKey(group="g")


def group(version: int, member: MemberMetadata) -> GroupMetadataValue:
    """A group of one member."""
    return GroupMetadataValue(
        version=version,
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m",
        current_state_timestamp_ms=99 if version >= 2 else -1,
        members=(member,),
    )


def test_members_by_version() -> None:
    """v1 added the rebalance timeout, v3 the instance id; older versions give -1 and None."""
    for version in range(5):
        member = MemberMetadata(
            member_id="m",
            group_instance_id="i" if version >= 3 else None,
            client_id="c",
            client_host="/h",
            rebalance_timeout_ms=20 if version >= 1 else -1,
            session_timeout_ms=10,
            subscription=b"\x01",
            assignment=b"",
        )
        assert decode_value(KEY, encode_value(group(version, member))) == group(version, member)


def test_the_record_of_a_new_group() -> None:
    """Generation 0 with an empty protocol type, no protocol, no leader, no members."""
    data = bytes.fromhex("0003000000000000ffffffff000000000000006300000000")
    assert decode_value(KEY, data) == GroupMetadataValue(
        version=3,
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp_ms=99,
        members=(),
    )
