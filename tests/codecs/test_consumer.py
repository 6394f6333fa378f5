"""Consumer groups of KIP-848."""

from groupreplay.codecs import consumer, decode_value, encode_value

MEMBER = consumer.ConsumerGroupMemberMetadataKey(group="g", member_id="m")
HEAD = "0000" + "00" + "0272" + "0263" + "032f68" + "020274" + "01" + "0000001e" + "00"


def member(classic: consumer.ClassicMemberMetadata | None) -> consumer.ConsumerGroupMemberMetadataValue:
    """The member of these tests."""
    return consumer.ConsumerGroupMemberMetadataValue(
        version=0,
        instance_id=None,
        rack_id="r",
        client_id="c",
        client_host="/h",
        subscribed_topic_names=("t",),
        subscribed_topic_regex="",
        rebalance_timeout_ms=30,
        server_assignor=None,
        classic_member_metadata=classic,
    )


def test_a_member_of_the_consumer_protocol_spells_out_null() -> None:
    """Brokers write the classic part as null (mark 00 in the tag); a missing tag would be an empty one."""
    data = bytes.fromhex(HEAD + "01" + "0001" + "00")
    assert decode_value(MEMBER, data) == member(None)
    assert encode_value(member(None)) == data
    empty = consumer.ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=())
    assert decode_value(MEMBER, bytes.fromhex(HEAD + "00")) == member(empty)


def test_a_member_of_the_classic_protocol() -> None:
    """A member in an upgraded group carries the protocols it joined with."""
    protocols = (consumer.ClassicProtocol(name="range", metadata=b"\x00\x01"),)
    value = member(consumer.ClassicMemberMetadata(session_timeout_ms=45, supported_protocols=protocols))
    data = bytes.fromhex(
        HEAD + "01" + "0011" + "01" + "0000002d" + "02" + "0672616e6765" + "030001" + "00" + "00"
    )
    assert encode_value(value) == data
    assert decode_value(MEMBER, data) == value


def test_assignment_epochs() -> None:
    """Since 4.3 each partition carries an epoch; before, there was no tag, which reads as no epochs."""
    key = consumer.ConsumerGroupCurrentMemberAssignmentKey(group="g", member_id="m")
    for epochs, tag in (((), "00"), (None, "0100" + "0100"), ((5,), "0100" + "0502" + "00000005")):
        owned = consumer.OwnedTopicPartitions(
            topic_id=b"\x01" * 16, partitions=(0,), assignment_epochs=epochs
        )
        value = consumer.ConsumerGroupCurrentMemberAssignmentValue(
            version=0,
            member_epoch=5,
            previous_member_epoch=4,
            state=0,
            assigned_partitions=(owned,),
            partitions_pending_revocation=(),
        )
        data = "0000" + "00000005" + "00000004" + "00" + "02" + "01" * 16 + "0200000000" + tag + "01" + "00"
        assert encode_value(value).hex() == data
        assert decode_value(key, bytes.fromhex(data)) == value
