"""The lines of brokers that say something about a group: one table, with the class of Kafka that writes each.

``GroupCoordinator`` is the coordinator in Scala (the default to 3.9), ``GroupMetadataManager`` the present one in Java.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from groupreplay.state.events.event import LeaveReason, Trigger

LineKind = Literal[
    "preparing",
    "stabilized",
    "assigned",
    "emptied",
    "joined",
    "replaced",
    "changed",
    "scanned",
    "bumped",
    "targeted",
    "gone",
    "asked",
    "cluster",
]
#: Both coordinators write these words; with other ones no pattern is tried.
_MARKS: Final = re.compile(r"[Gg]roup|Principal = |cluster |Cluster ID")
_PREFIX: Final = re.compile(r"\[GroupCoordinator (?:id=)?(?P<broker>\d+)[^\]]*\]:? ")


class LinePattern(NamedTuple):
    """``reasons`` and ``words``: for ``gone`` the reasons that remain, and what is said of it.

    ``trigger``: what it does to the epoch of a group of a newer kind, which is raised next.
    """

    kind: LineKind
    regex: re.Pattern[str]
    source: str
    reasons: frozenset[LeaveReason] = frozenset()
    words: str = ""
    trigger: Trigger | None = None


def _gone(regex: str, source: str, words: str, *reasons: LeaveReason) -> LinePattern:
    return LinePattern("gone", re.compile(regex), source, frozenset(reasons), words, "member_left")


_SESSION: Final = "the coordinator logged that its session ended"
_NOT_JOINED: Final = "the coordinator logged that it did not rejoin in time"
_BOTH: Final = "GroupCoordinator, GroupMetadataManager"
_JAVA: Final = "GroupMetadataManager"

_GROUP: Final = r"\[GroupId (?P<group>.+?)\]"
_FENCED: Final = (
    rf"{_GROUP}(?:\[MemberId .+?\])? (?:Streams m|M)ember (?P<member>\S.*?) fenced from the group because"
)

#: Every line that is used. A member's id may contain blanks; that of a group as well.
LINES: Final[tuple[LinePattern, ...]] = (
    LinePattern(
        "preparing",
        re.compile(
            r"Preparing to rebalance group (?P<group>.+) in state \w+ with old generation (?P<generation>\d+)"
            r"(?: \(__consumer_offsets-\d+\))? \(reason: (?P<reason>.*)\)\.?$"
        ),
        f"{_BOTH}: prepareRebalance",
    ),
    LinePattern(
        "stabilized",
        re.compile(r"Stabilized group (?P<group>.+) generation (?P<generation>\d+) (?:\(|with \d+ members)"),
        f"{_BOTH}: onCompleteJoin, completeClassicGroupJoin",
    ),
    LinePattern(
        "assigned",
        re.compile(
            r"Assignment received from leader (?P<member>.+) for group (?P<group>.+) for generation "
            r"(?P<generation>\d+)\. The group has"
        ),
        f"{_BOTH}: doSyncGroup, classicGroupSyncToClassicGroup",
    ),
    LinePattern(
        "emptied",
        re.compile(r"Group (?P<group>.+) with generation (?P<generation>\d+) is now empty"),
        f"{_BOTH}: onCompleteJoin, completeClassicGroupJoin",
    ),
    LinePattern(
        "joined",
        re.compile(
            rf"{_GROUP}(?:\[MemberId (?P<member_>.+?)\])? (?:Member|Static member) ?(?P<member>.*?)"
            r"(?: with instance id (?P<instance>.+))? joins the (?:consumer|share|streams) group"
        ),
        f"{_JAVA}: getOrMaybeSubscribeDynamicConsumerGroupMember and its siblings",
        trigger="member_joined",
    ),
    LinePattern(
        "replaced",
        re.compile(
            rf"{_GROUP}(?:\[MemberId .+?\])? Static member with instance id (?P<instance>.+) re-joins the .* "
            r"Created a new member (?P<member>.+) to replace the existing member "
        ),
        f"{_JAVA}: getOrMaybeSubscribeStaticConsumerGroupMember, getOrMaybeCreateStaticStreamsGroupMember",
    ),
    LinePattern(
        "changed",
        re.compile(
            rf"{_GROUP}(?:\[MemberId .+?\])? Member (?:(?P<member>\S.*?) )?updated its "
            r"(?:subscribed (?:topics|regex)|member metadata) to"
        ),
        f"{_JAVA}: hasMemberSubscriptionChanged, hasStreamsMemberMetadataChanged",
        trigger="subscription_changed",
    ),
    LinePattern(
        "changed",
        re.compile(
            rf"{_GROUP}(?:\[MemberId .+?\])? (?:Computed new (?:metadata hash|subscription metadata): |"
            r"Assignment configurations changed to |Member initialized the topology with epoch )"
        ),
        f"{_JAVA}: updateSubscriptionMetadata, shareGroupHeartbeat, streamsGroupHeartbeat, maybeUpdateTopology",
        trigger="metadata_changed",
    ),
    LinePattern(
        "scanned",
        re.compile(rf"{_GROUP} Scanned \d+ topics to refresh regular expressions"),
        f"{_JAVA}: refreshRegularExpressions",
        trigger="subscription_changed",
    ),
    LinePattern(
        "bumped",
        re.compile(rf"{_GROUP}(?:\[MemberId .+?\])? Bumped (?:streams )?group epoch to (?P<generation>\d+)"),
        f"{_JAVA}: updateSubscriptionMetadata, consumerGroupFenceMembers, streamsGroupHeartbeat",
    ),
    LinePattern(
        "targeted",
        re.compile(rf"{_GROUP} Computed a new target assignment for epoch (?P<generation>\d+) with "),
        f"{_JAVA}: maybeUpdateTargetAssignment, maybeUpdateStreamsTargetAssignment",
    ),
    _gone(
        r"Member (?P<member>.+) in group (?P<group>.+) has failed, removing it from the group",
        f"{_BOTH}: onExpireHeartbeat, expireClassicGroupMemberHeartbeat",
        _SESSION,
        "session_timeout",
    ),
    _gone(
        r"Group (?P<group>.+) removed dynamic members who haven't joined: (?:\[|\w*\()(?P<members>.*)[\])]",
        f"{_BOTH}: onCompleteJoin, completeClassicGroupJoin",
        _NOT_JOINED,
        "rebalance_timeout",
    ),
    _gone(
        r"Group (?P<group>.+) removed members who haven't sent their sync requests?: (?:\[|\w*\()(?P<members>.*)[\])]",
        f"{_BOTH}: onExpirePendingSync, expirePendingSync",
        "the coordinator logged that it did not ask for its assignment in time",
        "rebalance_timeout",
    ),
    _gone(
        r"Member (?:MemberMetadata\(memberId=(?P<member>.+), groupInstanceId=.*\)) has left group (?P<group>.+) "
        r"through explicit `LeaveGroup`(?: request)?(?:; client reason: (?P<reason>.*))?$",
        "GroupCoordinator: handleLeaveGroup",
        "the coordinator logged its LeaveGroup",
        "left",
        "poll_timeout",
    ),
    _gone(
        r"\[Group(?:Id)? (?P<group>.+)\] (?:Dynamic [Mm]ember|Member|Static [Mm]ember) (?P<member>.*?)"
        r"(?: with instance id (?P<instance>.+))? has left group through explicit `LeaveGroup` request"
        r"(?:; client reason: (?P<reason>.*))?$",
        f"{_JAVA}: classicGroupLeaveToClassicGroup, classicGroupLeaveToConsumerGroup",
        "the coordinator logged its LeaveGroup",
        "left",
        "poll_timeout",
    ),
    _gone(
        # A static member that leaves for a while keeps its place.
        rf"{_GROUP}(?:\[MemberId .+?\])? (?:Member|Static [Mm]ember) (?P<member>\S.*?)"
        r"(?: with instance id (?P<instance>.+))?(?<! temporarily) left the (?:consumer|share|streams) group",
        f"{_JAVA}: consumerGroupLeave, shareGroupLeave, streamsGroupLeave",
        "the coordinator logged that it left",
        "left",
        "poll_timeout",
    ),
    _gone(
        rf"{_FENCED} the member session expired",
        f"{_JAVA}: scheduleConsumerGroupSessionTimeout and its siblings",
        _SESSION,
        "session_timeout",
    ),
    _gone(
        rf"{_FENCED} it failed to transition",
        f"{_JAVA}: scheduleConsumerGroupRebalanceTimeout, scheduleStreamsGroupRebalanceTimeout",
        "the coordinator logged that it did not give up its partitions in time",
        "rebalance_timeout",
    ),
    _gone(
        rf"{_FENCED} the (?:classic )?member failed to (?:join|sync) within",
        f"{_JAVA}: scheduleConsumerGroupJoinTimeoutIfAbsent, scheduleConsumerGroupSyncTimeout",
        _NOT_JOINED,
        "rebalance_timeout",
    ),
    LinePattern(
        "asked",
        re.compile(
            r"Principal = (?P<principal>.+) is Allowed [oO]peration = \S+ from host = (?P<host>\S+) on resource = "
            r"Group:LITERAL:(?P<group>.+) for request = (?P<request>\w+)"
        ),
        "StandardAuthorizerData, AclAuthorizer: logAuditMessage",
    ),
    LinePattern(
        "cluster",
        re.compile(r"Cluster ID = (?P<cluster>\S+)$|in cluster (?P<cluster_>\S+) is now STARTING"),
        "KafkaServer, BrokerLifecycleManager",
    ),
)


def _shows(regex: str, trigger: Trigger) -> tuple[re.Pattern[str], Trigger]:
    return re.compile(regex, re.IGNORECASE), trigger


#: What the reason of a preparation shows, by how it begins; upper case in one coordinator, lower case in the other.
TRIGGERS: Final[tuple[tuple[re.Pattern[str], Trigger], ...]] = (
    _shows(r"adding new member ", "member_joined"),
    _shows(r"updating metadata for static member ", "static_member_replaced"),
    _shows(r"group's selectedProtocol will change because static member ", "static_member_replaced"),
    # Java's client names this reason when it gives up partitions to others (KIP-429).
    _shows(
        r"updating metadata for member .*; client reason: need to revoke partitions", "cooperative_followup"
    ),
    _shows(r"updating metadata for member ", "metadata_changed"),
    _shows(r"leader .* re-joining group during ", "leader_rejoined"),
    _shows(r"removing member .* on (?:heartbeat expiration|LeaveGroup)", "member_left"),
    _shows(r"removing .* on pending sync request expiration", "member_left"),
    _shows(r"explicit `LeaveGroup` request for ", "member_left"),
    _shows(r"downgrade group .* for member leaving", "member_left"),
)
#: Of members with the classic protocol in a consumer group, Kafka 3.9 names the group in another way.
_OF_EPOCHS: Final = re.compile(r"\[GroupId |\[Group .+\] (?:Dynamic|Static) Member ")
#: The words of Java's client when ``max.poll.interval.ms`` has passed; librdkafka gives no reason at all.
_GAVE_UP: Final = "consumer poll timeout has expired"
NO_REASON: Final = "not provided"


@dataclass(frozen=True, slots=True)
class BrokerLine:
    """A line that says something: the broker that wrote it (empty: not known), its text, and its values by name."""

    pattern: LinePattern
    broker: str
    text: str
    values: Mapping[str, str]

    @property
    def kind(self) -> LineKind:
        """What it says."""
        return self.pattern.kind

    @property
    def is_of_epochs(self) -> bool:
        """Whether it is about a group of a newer kind, which has an epoch in place of a generation."""
        return _OF_EPOCHS.match(self.text) is not None

    @property
    def reason(self) -> str:
        """Its words without the group."""
        group = self.values["group"]
        text = self.text.removeprefix(f"[GroupId {group}]").removeprefix(f"[Group {group}]")
        return text.strip().rstrip(".")

    @property
    def generation(self) -> int:
        """The generation or epoch that it names."""
        return int(self.values["generation"])

    @property
    def members(self) -> list[str]:
        """The ids of the members that are gone."""
        return (
            self.values["members"].split(", ")
            if "members" in self.values
            else [self.values.get("member", "")]
        )

    def departure(self) -> tuple[frozenset[LeaveReason], str]:
        """The reasons that remain for a member that is gone, and the words for it."""
        reason = self.values.get("reason", NO_REASON)
        if len(self.pattern.reasons) == 1 or reason == NO_REASON:
            return self.pattern.reasons, self.pattern.words
        told: LeaveReason = "poll_timeout" if reason.startswith(_GAVE_UP) else "left"
        return frozenset({told}), f"{self.pattern.words} with the client's reason “{reason}”"


def broker_line(message: str) -> BrokerLine | None:
    """What a message says; None: nothing about a group."""
    if _MARKS.search(message) is None:
        return None
    prefix = _PREFIX.match(message)
    text = message if prefix is None else message[prefix.end() :]
    for pattern in LINES:
        match = pattern.regex.match(text) if pattern.kind != "cluster" else pattern.regex.search(text)
        if match is not None:
            # A name with an underscore is another place of the same value.
            values = {name.rstrip("_"): value for name, value in match.groupdict().items() if value}
            return BrokerLine(pattern, "" if prefix is None else prefix["broker"], text, values)
    return None


def trigger_of(reason: str) -> Trigger | None:
    """What the reason of a preparation shows; None: no more than its words."""
    return next((trigger for pattern, trigger in TRIGGERS if pattern.match(reason)), None)
