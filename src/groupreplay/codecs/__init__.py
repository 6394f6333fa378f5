"""Decodes and encodes the records of Kafka's ``__consumer_offsets``; uses the standard library only.

Decoding never raises: bad bytes become `Malformed`, unknown types and versions become `Skipped`, a tombstone
is None.
"""

from groupreplay.codecs.classic import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from groupreplay.codecs.errors import Malformed, Skipped
from groupreplay.codecs.offsets import LegacyOffsetCommitKey, OffsetCommitKey, OffsetCommitValue
from groupreplay.codecs.primitives import ZERO_UUID, is_text, uuid_bytes, uuid_text
from groupreplay.codecs.registry import (
    PROTOCOL_VERSIONS,
    REGISTRY,
    VERSION_WITH_EXPIRY,
    WRITTEN_SINCE,
    as_written,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    written_version,
)
from groupreplay.codecs.schema import Key, Value
from groupreplay.codecs.subscription import (
    Assignment,
    ConnectAssignment,
    ConnectMetadata,
    ConnectorTasks,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_blob,
    decode_subscription,
    encode_blob,
    subscribed_topics,
)
