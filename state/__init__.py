"""Records to group state and events; pure: no bytes on the way in, no IO, no clock, no Spark.

Start reading in ``phases`` (what moves a group from state to state) and ``group`` (the contract with any
driver); ``events`` is the table of everything that can be said.
"""

from groupreplay.state.events.event import Cause, Event, Evidence, Fact, History, Severity
from groupreplay.state.group import Group
from groupreplay.state.kafka_terms import GroupType
from groupreplay.state.output.catalogue import FACTS
from groupreplay.state.output.document import DELETED, Deleted, encode_document
from groupreplay.state.output.envelope import CloudEvent, cloud_event
from groupreplay.state.policy.context import OFFSETS_TOPIC, Context
from groupreplay.state.snapshot.observations import (
    COMMITS,
    DECREASES,
    CommitRun,
    Extent,
    GroupRecord,
    Observations,
)
from groupreplay.state.snapshot.storage import SnapshotError

__all__ = [
    "COMMITS",
    "DECREASES",
    "DELETED",
    "FACTS",
    "OFFSETS_TOPIC",
    "Cause",
    "CloudEvent",
    "CommitRun",
    "Context",
    "Deleted",
    "Event",
    "Evidence",
    "Extent",
    "Fact",
    "Group",
    "GroupRecord",
    "GroupType",
    "History",
    "Observations",
    "Severity",
    "SnapshotError",
    "cloud_event",
    "encode_document",
]
