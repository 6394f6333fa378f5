"""Records to group state and events; pure: no bytes on the way in, no IO, no clock, no Spark.

Start reading in ``phases`` (what moves a group from state to state) and ``group`` (the contract with any
driver); ``events`` is the table of everything that can be said.
"""

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.events.event import Cause, Event, Evidence, History, Severity
from groupreplay.state.group import Group
from groupreplay.state.output.document import DELETED, Deleted
from groupreplay.state.policy.context import OFFSETS_TOPIC, Context
from groupreplay.state.snapshot.commit_steps import STEPS
from groupreplay.state.snapshot.observations import (
    COMMITS,
    CommitRun,
    Extent,
    GroupRecord,
    Observations,
)
from groupreplay.state.stored_form import SnapshotError
