"""Share groups."""

from groupreplay.codecs import decode_value, encode_value, share


def test_the_epoch_of_a_preview_and_of_today() -> None:
    """3.9 and 4.0 wrote the epoch alone; 4.1 put an untagged hash behind it under the same version."""
    key = share.ShareGroupMetadataKey(group="g")
    today = share.ShareGroupMetadataValue(version=0, epoch=5, metadata_hash=77)
    early = share.ShareGroupMetadataValue(version=0, epoch=5, early=True)
    for value, data in (
        (today, "0000" + "00000005" + "000000000000004d" + "00"),
        (early, "0000" + "00000005" + "00"),
    ):
        assert decode_value(key, bytes.fromhex(data)) == value
        assert encode_value(value).hex() == data


def test_topics_in_the_three_lists() -> None:
    """4.1 put the topics being set up in front of the two lists of 4.0."""
    key = share.ShareGroupStatePartitionMetadataKey(group="g")
    topic = share.TopicPartitionsInfo(topic_id=b"\x01" * 16, topic_name="t", partitions=(0,))
    for early in (False, True):
        value = share.ShareGroupStatePartitionMetadataValue(
            version=0, initialized_topics=(topic,), deleting_topics=(), early=early
        )
        assert decode_value(key, encode_value(value)) == value


def test_type_9_held_two_things() -> None:
    """In 3.9 what type 15 held later, in 4.0 topic metadata; the bytes tell which."""
    key = share.ShareGroupPartitionMetadataKey(group="g")
    assert decode_value(key, bytes.fromhex("00000100")) == share.ShareGroupPartitionMetadataValue(version=0)
    assert decode_value(key, bytes.fromhex("0000010100")) == share.ShareGroupPartitionMetadataValue(
        version=0, early=True
    )
