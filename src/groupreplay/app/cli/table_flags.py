"""The flags of commands that print tables: which columns, and whether they fit the terminal.

Imports nothing heavy at the top: ``--help`` loads this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import click

from groupreplay.app.cli.command import display, is_typed
from groupreplay.app.cli.options import group, names_flag, switch
from groupreplay.streaming.base.clock import UTC, TimeZone, now_ms

if TYPE_CHECKING:
    from groupreplay.app.text.tables import OutputFormat, Table, TableStyle


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
