"""A question about a group's settings: the flags as values, and its answer by plays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from groupreplay.app.whatif.answer_table import comparison_text, cost_sentences
from groupreplay.app.whatif.plays import Plays
from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.coordinator.simulation.settings_table import SettingValue
from groupreplay.state import Context
from groupreplay.state.phrases import counted
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, did_you_mean, unusable
from groupreplay.streaming.contract.log import ProgressCallback, no_progress
from groupreplay.timeline.group_history import GroupHistory
from groupreplay.timeline.whatif.answer import Answer, Comparison, cost_answers, lane, middle_play
from groupreplay.timeline.whatif.costs import Costs, costs
from groupreplay.timeline.whatif.inputs import PlayInputs, RecordedBroker, Unplayable, play_inputs
from groupreplay.timeline.whatif.quiet_times import quiet_times
from groupreplay.timeline.whatif.settings import ASKED, AUTO, INSTANCE, PROTOCOL, PlaySettings

_PAGE: Final = "docs/whatif.md lists the settings"

#: Plays with either settings where nobody names another number.
USUAL_DRAWS: Final = 50
#: Static members make no rebalance when they are started again, and only late commits show that they were away.
UNSEEN: Final = (
    "a member that is away for less than one commit interval counts as not standing still: the gain of static members "
    "is an upper bound"
)
#: Why the plays of a history with a storm do not come to its number of rebalances.
STORM: Final = (
    "it has a storm of rebalances, in which the commits do not show when each client came and left: --since and "
    "--until leave it out"
)


def asked_settings(properties: Mapping[str, str], flag: str) -> dict[str, SettingValue]:
    """The settings of ``--set`` or ``--recorded``, by Kafka's names.

    Raises:
        GroupReplayError: a name is unknown, or a value is not allowed.
    """
    values = {}
    for name, text in properties.items():
        if name not in ASKED:
            fix = f"{did_you_mean(name, ASKED)}known here: {', '.join(ASKED)}"
            raise unusable(f"unknown setting {name!r}", flag, fix)
        try:
            values[name] = ASKED[name].parsed(text)
        except ValueError as error:
            raise unusable(str(error), flag, _PAGE) from None
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked. ``stated``: what somebody knows of the recorded settings, and no record has."""

    changed: Mapping[str, SettingValue]
    stated: Mapping[str, SettingValue]
    draws: int
    seed: int
    since_ms: int | None = None
    #: The flag with which it is asked, for messages.
    flag: str = "--set"

    def answer(
        self, history: GroupHistory, context: Context, progress: ProgressCallback = no_progress
    ) -> Answer:
        """The answer for one group.

        Raises:
            GroupReplayError: its history cannot be played, or a setting has no effect on it.
        """
        return self._answered(history, self._played(history, context, progress))

    def comparison(
        self, history: GroupHistory, context: Context, progress: ProgressCallback = no_progress
    ) -> Comparison:
        """The answer for one group as a picture shows it, beside what is recorded.

        Raises:
            GroupReplayError: its history cannot be played, or a setting has no effect on it.
        """
        played = self._played(history, context, progress)
        plays, answer = played.plays, self._answered(history, played)
        begin_ms, interval_ms = plays.inputs.begin_ms, plays.inputs.interval_ms
        lanes = [lane("recorded", history, begin_ms, interval_ms)]
        if answer.answered:
            number = middle_play(played.other)
            drawn = plays.history(played.settings, number)
            lanes.append(
                lane("with the other settings", drawn, begin_ms, interval_ms, plays.quiet.recorded_ms)
            )
        return Comparison(
            text=comparison_text(answer), costs=tuple(cost_sentences(answer)), lanes=tuple(lanes)
        )

    def _played(self, history: GroupHistory, context: Context, progress: ProgressCallback) -> _Played:
        """Both series of plays.

        Raises:
            GroupReplayError: its history cannot be played, or a setting has no effect on it.
        """
        inputs = self._inputs(history, context)
        settings = inputs.settings.changed(self.changed)
        _need_effect(self.changed, settings[PROTOCOL], self.flag)
        if (contradiction := settings.contradiction()) is not None:
            what = f"no client and no broker starts with these settings, {contradiction}"
            raise unusable(what, self.flag, "change one of the two")
        span = inputs.begin_ms, inputs.end_ms
        quiet = quiet_times(inputs.moments, span, inputs.interval_ms, [inputs.settings, settings])
        plays = Plays(inputs=inputs, quiet=quiet, draws=self.draws, seed=self.seed)
        recorded = plays.costs(inputs.settings, lambda done, _: progress(done, 2 * self.draws))
        other = plays.costs(settings, lambda done, _: progress(self.draws + done, 2 * self.draws))
        return _Played(plays, settings, recorded, other)

    def _inputs(self, history: GroupHistory, context: Context) -> PlayInputs:
        broker = RecordedBroker(
            retention_ms=context.retention_ms,
            check_interval_ms=context.retention_check_interval_ms,
            session=context.session_of(GroupType.CONSUMER.value, history.group_id),
        )
        try:
            return play_inputs(history, broker, self.stated, self.since_ms)
        except Unplayable as error:
            raise GroupReplayError(
                f"the history of {history.group_id!r} cannot be played: {error}",
                fix="docs/whatif.md has what a history needs",
                exit_code=ExitCode.DATA,
            ) from None

    def _answered(self, history: GroupHistory, played: _Played) -> Answer:
        inputs = played.plays.inputs
        recorded = costs(history, inputs.begin_ms, inputs.interval_ms)
        answers = cost_answers(recorded, played.recorded, played.other)
        return Answer(
            group_id=inputs.group_id,
            since_ms=inputs.begin_ms,
            until_ms=inputs.end_ms,
            draws=self.draws,
            seed=self.seed,
            changed=self.changed,
            settings=inputs.settings.values,
            assumed=inputs.assumed,
            answered=answers[0].reproduced,
            costs=answers,
            notes=tuple(_notes(inputs, self.changed, is_answered=answers[0].reproduced)),
        )


@dataclass(frozen=True, slots=True)
class _Played:
    """The plays with the recorded settings and with the other ones, ``settings``, each with its costs."""

    plays: Plays
    settings: PlaySettings
    recorded: list[Costs]
    other: list[Costs]


def _notes(inputs: PlayInputs, changed: Mapping[str, SettingValue], *, is_answered: bool) -> list[str]:
    notes = []
    if inputs.storms and not is_answered:
        notes.append(STORM)
    if changed.get(INSTANCE) == AUTO:
        notes.append(UNSEEN)
    if count := inputs.left_out:
        verb = "is" if count == 1 else "are"
        notes.append(
            f"{counted(count, 'rebalance')} before a gap in the log, or before --since, {verb} left out"
        )
    if count := inputs.moments.lineages.by_client_id:
        matched = "is matched by nothing but its" if count == 1 else "are matched by nothing but their"
        notes.append(f"{counted(count, 'member')} that came back {matched} client id")
    return notes


def _need_effect(changed: Mapping[str, SettingValue], protocol: str, flag: str) -> None:
    """Raises ``GroupReplayError`` if a setting has no effect in the protocol of the play."""
    for name in changed:
        if protocol not in ASKED[name].protocols:
            fix = f"add {flag} {PROTOCOL}={ASKED[name].protocols[0]}, or leave it out"
            raise unusable(f"{name} has no effect in the {protocol} protocol", flag, fix)
