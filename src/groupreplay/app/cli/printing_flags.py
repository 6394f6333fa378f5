"""The flags of commands that print what happened: ``--since``, ``--until``, ``--time-zone``, and the columns of tables.

Imports nothing heavy at the top: ``--help`` loads this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import click

from groupreplay.app.cli.command import display, is_typed
from groupreplay.app.cli.flags import need_event_types
from groupreplay.app.cli.options import group, names_flag, switch
from groupreplay.app.text.times import GivenTime, date_time
from groupreplay.streaming.base.clock import UTC, TimeZone, now_ms

if TYPE_CHECKING:
    from groupreplay.app.text.event_text import Line
    from groupreplay.app.text.tables import OutputFormat, Table, TableStyle
    from groupreplay.streaming.engine.replay import Filter
    from groupreplay.streaming.sources.source import DataEnd


def live_end() -> DataEnd:
    """The end of live data: now."""
    from groupreplay.streaming.sources.source import DataEnd

    return DataEnd(at_ms=now_ms(), is_live=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """From ``since_ms`` on and before ``until_ms``, in milliseconds; None for no bound.

    ``counted_from`` is the end of the data if one of them was counted from it: an age, or with ``is_time_of_day`` the
    latest such time before it. ``until_flag`` gave ``until_ms``.
    """

    since_ms: int | None = None
    until_ms: int | None = None
    counted_from: DataEnd | None = None
    zone: TimeZone = UTC
    is_time_of_day: bool = False
    until_flag: str = "--until"

    def flags(self) -> list[str]:
        """The bounds as flags, for a line that nothing was found between them."""
        bounds = (("--since", self.since_ms), (self.until_flag, self.until_ms))
        return [f"{name} {date_time(at_ms, self.zone)}" for name, at_ms in bounds if at_ms is not None]

    def heading(self) -> str | None:
        """A line above what is printed: the bounds that were counted from the end of the data; None without such."""
        if self.counted_from is None:
            return None
        bounds = [
            f"{word} {date_time(at_ms, self.zone)}"
            for word, at_ms in (("from", self.since_ms), ("until", self.until_ms))
            if at_ms is not None
        ]
        end = self.counted_from
        origin = "now" if end.is_live else "the last record"
        how = "the latest such time before" if self.is_time_of_day else "counted back from"
        return (
            f"{' '.join([*bounds, f'({self.zone.name})'])}, {how} {origin}, {date_time(end.at_ms, self.zone)}"
        )


def given_flags(
    names: Mapping[str, Iterable[str]], times: TimeRange, min_severity: str = "info"
) -> list[str]:
    """Flags with their values, as far as they were given, for a line that nothing was found for them."""
    flags = [f"{flag} {value}" for flag, values in names.items() for value in values]
    severity = [] if min_severity == "info" else [f"--min-severity {min_severity}"]
    return [*flags, *severity, *times.flags()]


def event_filter(types: Sequence[str], min_severity: str, times: TimeRange) -> Filter:
    """The events that the flags choose.

    Raises:
        UsageError: there is no event of such a name.
    """
    from groupreplay.state import Severity
    from groupreplay.streaming.engine.replay import Filter

    return Filter(
        types=need_event_types(types),
        since_ms=times.since_ms,
        until_ms=times.until_ms,
        least_severity=Severity[min_severity.upper()],
    )


def event_headings(times: TimeRange) -> list[str]:
    """The lines above the lines of events."""
    from groupreplay.app.text.event_text import line_heading

    return [heading for heading in (times.heading(), line_heading(times.zone)) if heading is not None]


class EventLines:
    """Prints events one after the other: a line each below the headings, or with ``jsonl`` each unchanged.

    ``follows``: a terminal shows below them the conditions that are active now. ``public_url``: the address of live
    pages, which lines of WARN and ERROR end with.
    """

    def __init__(
        self, times: TimeRange, output: str, *, follows: bool, public_url: str | None = None
    ) -> None:
        from groupreplay.app.text.screen import Screen

        self._times, self._output, self._public_url = times, output, public_url
        self._screen = Screen(colour=display().colour, follows=follows)
        self._is_begun = False

    def print(self, value: bytes) -> None:
        """One event, which is known to be one."""
        from groupreplay.app.text.event_text import line_of
        from groupreplay.app.text.terminal import escape_json
        from groupreplay.streaming.contract.messages import OBJECTS

        if self._output == "jsonl":
            click.echo(escape_json(value.decode()))
            return
        event = OBJECTS.decode(value) or {}
        if not self._is_begun:
            self._is_begun = True
            for heading in event_headings(self._times):
                self._screen.heading(heading)
        self._screen.event(event, _with_page(line_of(event, self._times.zone), event, self._public_url))

    def close(self) -> None:
        """Remove the line that stands below all others."""
        self._screen.close()


def _with_page(line: Line, event: Mapping[str, Any], public_url: str | None) -> Line:
    """The line, with the page to open where somebody has to look."""
    from groupreplay.app.text.event_text import page_of

    page = "" if public_url is None or line.severity == "INFO" else page_of(event, public_url)
    return replace(line, text=f"{line.text}  {page}") if page else line


def text_width() -> int:
    """Columns of text on stdout: those of the terminal; 120 where it is none."""
    import sys

    from groupreplay.app.text.terminal import terminal_width

    return terminal_width(sys.stdout) or 120


def print_heading(times: TimeRange, output: str) -> None:
    """Print above a table what was counted from the end of the data, if anything was."""
    heading = times.heading()
    if heading is not None and output == "table":
        click.echo(heading)


def point_ms(moment: GivenTime | None, zone: TimeZone, end: Callable[[], DataEnd]) -> int | None:
    """What one flag means, in milliseconds; None without it. ``end`` is called only if the flag counts from it."""
    if moment is None:
        return None
    return moment.at_ms(end().at_ms if moment.needs_end else 0, zone)


def point_or_range(
    at: GivenTime | None,
    since: GivenTime | None,
    until: GivenTime | None,
    zone: TimeZone,
    end: Callable[[], DataEnd],
) -> TimeRange:
    """The range up to ``--at``, or that of ``--since`` and ``--until``.

    Raises:
        UsageError: both are given, or the time ends before it begins.
    """
    if at is None:
        return time_range(since, until, zone, end)
    if since or until:
        raise click.UsageError("Give either --at TIME, or --since and --until.")
    return replace(time_range(None, at, zone, end), until_flag="--at")


def time_range(
    since: GivenTime | None, until: GivenTime | None, zone: TimeZone, end: Callable[[], DataEnd]
) -> TimeRange:
    """What the flags mean; ``end`` is called only if one of them counts from the end of the data.

    A time of day of ``--until`` is the first one after ``--since``. ``--until now`` is no bound: the data end there.

    Raises:
        UsageError: the time ends before it begins.
    """
    until = None if until is not None and until.age_ms == 0 else until
    data_end = end() if any(moment is not None and moment.needs_end for moment in (since, until)) else None
    end_ms = 0 if data_end is None else data_end.at_ms
    since_ms = None if since is None else since.at_ms(end_ms, zone)
    if until is None:
        until_ms = None
    elif since_ms is None:
        until_ms = until.at_ms(end_ms, zone)
    else:
        until_ms = until.after_ms(since_ms, zone=zone, end_ms=end_ms)
        if until_ms <= since_ms:
            assert since is not None
            what = f"--until {until.text} ({date_time(until_ms, zone)}) is not after"
            since_text = f"--since {since.text} ({date_time(since_ms, zone)}), in {zone.name}"
            swapped = None not in (since.age_ms, until.age_ms) and since.age_ms != until.age_ms
            hint = f" Ages count back: --since {until.text} --until {since.text}?" if swapped else ""
            raise click.UsageError(f"{what} {since_text}.{hint}")
    return TimeRange(
        since_ms=since_ms,
        until_ms=until_ms,
        counted_from=data_end,
        zone=zone,
        is_time_of_day=data_end is not None
        and all(moment is None or moment.age_ms is None for moment in (since, until)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFlags:
    """``wide``: lines as long as they are, nothing shortened; ``columns``: only these."""

    wide: bool = False
    columns: Sequence[str] = ()

    def print(
        self,
        tables: Sequence[Table],
        documents: Iterable[object],
        output: OutputFormat,
        *,
        zone: TimeZone = UTC,
        by_group: bool = False,
        stacks: bool = False,
    ) -> None:
        """Print one table below the other, or their documents; CSV has one heading for all of them.

        Raises:
            UsageError: no table has one of the columns.
        """
        from groupreplay.app.text.tables import merged, print_table, show

        if self.columns and output not in ("table", "csv") and is_typed("columns"):
            raise click.UsageError(
                f"--columns chooses columns of tables and CSV: leave it out with -o {output}."
            )
        columns = _columns(self.columns, tables)
        style = self._style(columns, zone=zone, by_group=by_group, stacks=stacks)
        if output != "table":
            show(merged(tables), documents, output, style)
            return
        shown = [table for table in tables if not style.columns or set(style.columns) & set(table.columns)]
        for number, table in enumerate(shown):
            if number:
                click.echo()
            print_table(table, style)

    def _style(self, columns: Sequence[str], *, zone: TimeZone, by_group: bool, stacks: bool) -> TableStyle:
        import sys

        from groupreplay.app.text.tables import TableStyle
        from groupreplay.app.text.terminal import terminal_width

        return TableStyle(
            colour=display().colour,
            width=terminal_width(sys.stdout),
            wide=self.wide,
            columns=columns,
            by_group=by_group,
            stacks=stacks,
            zone=zone,
            year=datetime.fromtimestamp(now_ms() / 1000, timezone.utc).year,
        )


def table_flags() -> Any:
    """A field with ``TableFlags``."""
    return group(
        TableFlags,
        wide=switch(
            "Do not fit tables to the terminal: whole ids, times and columns in lines of any length."
        ),
        columns=names_flag(
            "Only these columns of tables and CSV, in this order, for example group,state,lag."
        ),
    )


def _columns(names: Sequence[str], tables: Sequence[Table]) -> list[str]:
    """The headings that are meant; those of other tables are left out if the names were not typed."""
    headings = []
    for name in names:
        try:
            headings.append(_column(name, tables))
        except click.UsageError:
            if is_typed("columns"):
                raise
    return headings


def _column(name: str, tables: Sequence[Table]) -> str:
    """The heading that is meant: ``members`` is ``#MEMBERS``, ``coordinator`` is ``COORDINATOR (ID)``."""
    plain = _plain(name)
    headings = dict.fromkeys(heading for table in tables for heading in table.columns)
    # A whole heading wins: one table may have both MEMBERS and #MEMBERS.
    for heading in sorted(headings, key=lambda heading: heading.lower() != name.lower()):
        if _plain(heading) == plain:
            return heading
    raise click.UsageError(f"There is no column {name!r}; there are {', '.join(headings).lower()}.")


def _plain(heading: str) -> str:
    return heading.lower().removesuffix(" (id)").removeprefix("#").replace("_", "-")
