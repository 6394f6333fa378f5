"""Why the epoch of a group of a newer kind rose, as its coordinator logged it, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field

from groupreplay.state.policy.broker_log import LoggedEpoch
from groupreplay.streaming.broker_log.lines import BrokerLine


@dataclass
class Epochs:
    """The epochs of one group on one broker, in the order of the lines.

    A member that joins, or changes what it asks for, has its line before that of the epoch. One that goes raises the
    epoch by one as well, but only some releases write a line of that; the next line with an epoch corrects it.
    """

    logged: list[LoggedEpoch] = field(default_factory=list)
    _current: int | None = None
    #: The last one that a line names.
    _named: int | None = None
    _waiting: list[BrokerLine] = field(default_factory=list)

    def add(self, line: BrokerLine) -> None:
        """Take the next line; others than those of epochs change nothing."""
        match line.kind:
            case "joined" | "changed":
                # What a member that goes changes in the metadata belongs to its step.
                if line.pattern.trigger != "metadata_changed" or self._current == self._named:
                    self._waiting.append(line)
            case "gone" if line.is_of_epochs:
                self._waiting.append(line)
                if self._current is not None:
                    self._raise(self._current + 1, line.broker)
            case "bumped" | "targeted":
                self._name(line)

    def _name(self, line: BrokerLine) -> None:
        epoch, named, current = line.generation, self._named, self._current
        if named is not None and current is not None and named < epoch < current:
            # One step removed several members.
            above = [one for one in self.logged if one.epoch > epoch and one.epoch <= current]
            self.logged = self.logged[: len(self.logged) - len(above)]
            words = tuple(reason for one in above for reason in one.reasons)
            last = self.logged.pop()
            self.logged.append(LoggedEpoch(epoch, (*last.reasons, *words), last.trigger, last.broker))
        if self._waiting or (line.kind == "bumped" and (epoch != current or epoch == named)):
            self._waiting = self._waiting or [line]
            self._raise(epoch, line.broker)
        self._current = self._named = epoch

    def _raise(self, epoch: int, broker: str) -> None:
        reasons = tuple(line.reason for line in self._waiting)
        self.logged.append(LoggedEpoch(epoch, reasons, self._waiting[0].pattern.trigger, broker))
        self._current, self._waiting = epoch, []
