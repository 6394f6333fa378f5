"""Why the epoch of a group of a newer kind rose, as its coordinator logged it, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from groupreplay.state.policy.broker_log import LoggedEpoch
from groupreplay.streaming.broker_log.lines import BrokerLine

#: Of a new group since Kafka 4.3, whose first member waits for what its regular expression stands for: no line has it.
_INITIAL: Final = 1


@dataclass
class Epochs:
    """The epochs of one group on one broker, in the order of the lines.

    The lines of a step stand together: a member that joins, or changes what it asks for, before the epoch. One that
    goes raises it by one as well, but only some releases write a line of that; the next epoch in a line corrects it.
    """

    logged: list[LoggedEpoch] = field(default_factory=list)
    _current: int | None = None
    #: The last one that a line names.
    _named: int | None = None
    _waiting: list[BrokerLine] = field(default_factory=list)
    #: The join of the first member whose regular expression was resolved since.
    _pending: list[BrokerLine] = field(default_factory=list)

    def add(self, line: BrokerLine) -> None:
        """Take the next line; others than those of epochs change nothing."""
        if line.kind in ("bumped", "targeted"):
            self._name(line)
        elif line.kind in ("joined", "scanned") or (line.kind == "gone" and line.is_of_epochs):
            # A step begins. What waits raised no epoch: a regular expression stands for the same topics as before, or
            # a member joined again.
            if line.kind == "scanned" and self._waiting and self._waiting[0].kind == "joined":
                self._pending = self._pending or self._waiting
            self._waiting = [line]
            if line.kind == "gone" and self._current is not None:
                self._raise(self._current + 1)
        elif line.kind == "changed" and not self._belongs_to_a_departure(line):
            self._waiting = [*(one for one in self._waiting if one.kind != "scanned"), line]

    def _belongs_to_a_departure(self, line: BrokerLine) -> bool:
        """Whether the metadata changed because a member is gone."""
        return line.pattern.trigger == "metadata_changed" and self._current != self._named

    def _name(self, line: BrokerLine) -> None:
        epoch, named, current = line.generation, self._named, self._current
        if named is not None and current is not None and named < epoch < current:
            # One step removed several members.
            words = list[str]()
            while self.logged[-1].epoch > epoch:
                words = [*self.logged.pop().reasons, *words]
            last = self.logged[-1]
            self.logged[-1] = replace(last, reasons=(*last.reasons, *words))
            current = epoch
        if self._pending and epoch == _INITIAL + 1 and current != _INITIAL:
            self._add(_INITIAL, self._pending, self._pending[0].values.get("member", ""))
        self._pending = []
        if self._waiting or (line.kind == "bumped" and (epoch != current or epoch == named)):
            self._waiting = self._waiting or [line]
            self._raise(epoch)
        self._current = self._named = epoch

    def _raise(self, epoch: int) -> None:
        self._add(epoch, self._waiting)
        self._current, self._waiting = epoch, []

    def _add(self, epoch: int, lines: Sequence[BrokerLine], member_id: str | None = None) -> None:
        reasons, first = tuple(line.reason for line in lines), lines[0]
        self.logged.append(LoggedEpoch(epoch, reasons, first.pattern.trigger, first.broker, member_id))
