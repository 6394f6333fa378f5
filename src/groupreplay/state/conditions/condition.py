"""The base classes of all conditions: the fields and the text that they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple

from msgspec import Meta

from groupreplay.state import phrases
from groupreplay.state.events.event import Evidence, Fact, Severity, SinceEarliest
from groupreplay.state.phrases import Data

Status = Literal["firing", "resolved"]


class Example(NamedTuple):
    """A condition as it fires: what it rests on and its own fields. For the docs and the tests."""

    evidence: Evidence
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert in deploy/prometheus, raised while the condition holds and is more than INFO, with its severity.

    It waits for nothing more: a condition has lasted for its threshold. In the texts ``{group}``, ``{cluster}`` and
    ``{what}`` stand for labels. ``fires`` is its row in docs/monitoring.md.
    ``label``: the condition in the metrics, where it has a second name; ``what``: only for this value of the field.
    ``name`` follows from the label where it is empty.
    """

    fires: str
    summary: str
    description: str
    name: str = ""
    label: str = ""
    what: str = ""


#: For ``Condition.EXAMPLES``.
EXAMPLE_MEMBER: Final[dict[str, Any]] = {
    "member_id": "pods-7-x",
    "client_id": "pods-7",
    "client_host": "/10.0.0.7",
    "instance_id": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition(Fact):
    """Something that holds for a while: an event reports its beginning, another one its end.

    A subclass is the event: its docstring is its line in the table of docs/events.md, ``DOC`` its text there,
    ``SEVERITY`` its usual severity, by which everything draws it, its fields are those of the event, and
    ``firing_text`` is how it reads on the terminal.

    ``MEANING`` is what it was, in a verdict about a group, ``SHORT`` follows a number of groups: "4 stuck",
    ``GROUPS_DID`` what began, after the number of groups in an incident. A verdict leaves it out beside the condition
    ``IMPLIED_BY``, and counts partitions without commits meanwhile if it ``STOPS_COMMITS``.
    """

    SEVERITY: ClassVar[Severity] = Severity.WARN
    MEANING: ClassVar[str] = ""
    SHORT: ClassVar[str] = ""
    GROUPS_DID: ClassVar[str] = ""
    IMPLIED_BY: ClassVar[str] = ""
    STOPS_COMMITS: ClassVar[bool] = False
    ALERTS: ClassVar[tuple[Alert, ...]] = ()
    EXAMPLES: ClassVar[tuple[Example, ...]]

    status: Annotated[Status, Meta(description="Sent again as `firing` when it gets worse.")]
    condition_id: Annotated[str, Meta(description="The same from the first event to `resolved`.")]
    since_ms: Annotated[
        int,
        Meta(
            description="When it began, which is before it was detected. Of what a prober saw: at the latest."
        ),
    ]
    since_ms_earliest: SinceEarliest = None
    threshold_ms: Annotated[int | None, Meta(description="How long it had to last before it was reported.")]
    runbook: Annotated[str, Meta(description="What it means, what to do first, how to confirm.")]

    @staticmethod
    def firing_text(data: Data) -> str:
        """The condition on one line while it holds, from the ``data`` of its event; safe to print."""
        raise NotImplementedError

    @staticmethod
    def named_text(names: str, count: int, *, proven: bool) -> str:
        """The ``count`` members that it names, in a verdict; ``proven``: the log proves of each what it did."""
        return names

    @staticmethod
    def who(data: Data) -> str:
        """Whom it is about, in an alert: the member or partition; empty when it is the whole group."""
        return phrases.subject(data)

    @classmethod
    def text(cls, data: Data) -> str:
        """The condition on one line: while it holds, or after its end how long it held and its subject."""
        if data.get("status") != "resolved":
            return cls.firing_text(data)
        elapsed_ms, subject = data.get("elapsed_ms"), phrases.subject(data)
        after = "" if elapsed_ms is None else f" after {phrases.milliseconds(elapsed_ms)}"
        return f"resolved{after}{subject and ', '}{subject}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberCondition(Condition):
    """About one slot; the member id is that of its present or last holder."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
