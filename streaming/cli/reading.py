"""Commands that read the log, from a capture or a live topic, and print: replay, list, describe, decode.

Knows flags and help texts, and the few lines that hand them to the module that does the work; must not import
anything heavy at the top, because ``--help`` is made from here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.cli.inputs import (
    context_of,
    need_connection,
    open_rows,
    reading,
    warn_of_dead_letters,
    with_probes,
)
from groupreplay.streaming.cli.options import (
    TABLE_FORMATS,
    Display,
    ProbesChoice,
    display_options,
    duration,
    input_options,
    moment,
    names,
    need_event_types,
    option,
    output_option,
    pair,
    probes_options,
    redact_options,
    retention_options,
    rules_option,
    rules_options,
)

if TYPE_CHECKING:
    from groupreplay.state.policy.redaction import Redaction
    from groupreplay.streaming.config.retention import RetentionFlags
    from groupreplay.streaming.text.terminal import Table

_COLOURS = {"WARN": "yellow", "ERROR": "red"}
_WITH_LAG = option("--with-lag", is_flag=True, help="Ask the cluster for the ends of the partitions, too.")
_AT = option("--at", type=moment, metavar="TIME", help="As it was then: what was written later is ignored.")
_FAIL_ON = option(
    "--fail-on",
    type=names,
    default="",
    metavar="NAMES",
    help="End with 6 when one of these holds: stuck,storm,expired and the like.",
)


@click.command()
@input_options
@probes_options
@retention_options
@option("--group", "groups", multiple=True, metavar="GROUP", help="Only this group; may be repeated.")
@option("--type", "types", multiple=True, metavar="EVENT", help="Only rebalance.completed and the like.")
@option("--since", type=moment, metavar="TIME", help="Only what happened then or later.")
@option("--until", type=moment, metavar="TIME", help="Only what happened before.")
@option("--member-events", is_flag=True, help="Say member.joined, member.left and member.updated, too.")
@option(
    "--complete-since", type=moment, metavar="TIME", help="From then on a first commit proves a new group."
)
@option("--label", "labels", type=pair, multiple=True, metavar="KEY=VALUE", help="Goes into every event.")
@redact_options
@rules_options
@output_option("table", "jsonl")
@display_options
@click.pass_obj
def replay(
    display: Display,
    /,
    *,
    from_file: Sequence[Path],
    bootstrap_server: str | None,
    command_config: Path | None,
    probes: ProbesChoice,
    retention: RetentionFlags,
    groups: Sequence[str],
    types: Sequence[str],
    since: int | None,
    until: int | None,
    member_events: bool,
    complete_since: int | None,
    labels: Sequence[tuple[str, str]],
    redaction: Redaction | None,
    rules: Path | None,
    rule_numbers: Sequence[tuple[str, str]],
    output: str,
) -> None:
    """Print what happened, by time: the events that the job would have written, without Spark.

    jsonl prints them as the CloudEvents that the job writes, one a line. The job knows since its first start
    that it has missed nothing; here --complete-since says so.
    """
    from groupreplay.streaming.config.rules_file import RulesSource
    from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
    from groupreplay.streaming.text.terminal import Progress

    policy = RulesSource(path=rules, numbers=rule_numbers).load()
    wanted = Filter(types=need_event_types(types), since_ms=since, until_ms=until)
    with Progress("records read") as progress:
        rows = open_rows(from_file, bootstrap_server, command_config, probes=probes, progress=progress)
        rows, is_probed = with_probes(rows)
        context = context_of(
            rows,
            retention=retention,
            policy=policy,
            probing=is_probed,
            complete_since_ms=complete_since,
            member_events=member_events,
            labels=dict(labels),
            redaction=redaction,
        )
        driver = Replay(context, groups or None)
        events = events_in_order(driver.feed(rows), wanted)
        _print_events(events, progress.close, output, colour=display.colour)
    warn_of_dead_letters(driver.dead_letters)


def _print_events(events: Iterable[bytes], before: Callable[[], None], output: str, *, colour: bool) -> None:
    from groupreplay.streaming.text.event_text import line_of
    from groupreplay.streaming.text.terminal import escape_json

    for value in events:
        before()
        if output == "jsonl":
            click.echo(escape_json(value.decode()))
        else:
            event = json.loads(value)
            line = line_of(event)
            text = f"{event['time'][:10]} {line.plain()}"
            click.echo(click.style(text, fg=_COLOURS.get(line.severity)) if colour else text)


@click.command("list")
@input_options
@probes_options
@retention_options
@option(
    "--type",
    "types",
    type=names,
    default="",
    metavar="NAMES",
    help="Only these: classic,consumer,share,streams.",
)
@option(
    "--state", "states", type=names, default="", metavar="NAMES", help="Only these: stable,empty and so on."
)
@option(
    "--expiring", type=duration, metavar="DURATION", help="Only groups that lose offsets within 24h, say."
)
@_WITH_LAG
@_AT
@_FAIL_ON
@rules_option
@output_option(*TABLE_FORMATS)
@display_options
@click.pass_obj
@click.pass_context
def list_groups(
    ctx: click.Context,
    display: Display,
    /,
    *,
    from_file: Sequence[Path],
    bootstrap_server: str | None,
    command_config: Path | None,
    probes: ProbesChoice,
    retention: RetentionFlags,
    types: Sequence[str],
    states: Sequence[str],
    expiring: int | None,
    with_lag: bool,
    at: int | None,
    fail_on: Sequence[str],
    rules: Path | None,
    output: str,
) -> None:
    """Print all groups, as kafka-consumer-groups.sh --list does, from the log alone.

    RISK is the worst condition that holds; groupreplay describe --state --verbose shows all of them. With
    --expiring only groups whose committed offsets the broker may remove within that time, the first one first;
    with --with-lag also how many records a consumer would then read again, or skip, by its auto.offset.reset.
    """
    from groupreplay.streaming.inspection import expiry
    from groupreplay.streaming.inspection.fail_on import Findings, wanted_names
    from groupreplay.streaming.inspection.inspection import choose, list_table, pictures, summary
    from groupreplay.streaming.text.terminal import Output, show

    if with_lag and expiring is None:
        raise click.UsageError(
            "--with-lag needs --expiring: it asks for the partitions of those groups only."
        )
    findings = Findings(wanted_names(fail_on))
    with reading(
        from_file, bootstrap_server, command_config, probes, retention=retention, rules=rules, until_ms=at
    ) as (driver, rows):
        found = pictures(driver, rows, findings)
    chosen = choose(found, types=types, states=states)
    if expiring is not None:
        chosen = expiry.expiring(chosen, driver.latest_ms + expiring)
        chosen = expiry.with_lag(chosen, need_connection(rows)) if with_lag else chosen
        table, documents = expiry.expiring_table(chosen), map(expiry.expiring_summary, chosen)
    else:
        table, documents = list_table(chosen), map(summary, chosen)
    show(table, documents, Output(output), colour=display.colour)
    _fail(ctx, findings.lines(chosen, driver))


def _fail(ctx: click.Context, found: Mapping[str, Sequence[str]]) -> None:
    """Says on stderr what was found, and ends with 6 when something was."""
    from groupreplay.streaming.text.terminal import safe_line

    for group_id, lines in sorted(found.items()):
        click.echo(safe_line(f"found: {group_id}: {'; '.join(lines)}"), err=True)
    if found:
        ctx.exit(ExitCode.FOUND)


@click.command()
@input_options
@probes_options
@retention_options
@option("--group", "groups", multiple=True, metavar="GROUP", help="The group; may be repeated.")
@option("--all-groups", is_flag=True, help="Every group.")
@click.option("--offsets", "view", flag_value="offsets", default="offsets", help="Offsets (the default).")
@click.option("--members", "view", flag_value="members", help="Members and how much each has.")
@click.option("--state", "view", flag_value="state", help="Coordinator, strategy, state, number of members.")
@click.option("--history", "view", flag_value="history", help="What happened, when, who, and why.")
@option("--type", "types", type=names, default="", metavar="NAMES", help="Only groups of these types.")
@option("--verbose", is_flag=True, help="More columns: epochs, assignments and targets, leader epochs.")
@option("--sort", type=click.Choice(("topic", "expires")), default="topic", help="Order of the offsets.")
@_WITH_LAG
@_AT
@_FAIL_ON
@rules_option
@output_option(*TABLE_FORMATS)
@display_options
@click.pass_obj
@click.pass_context
def describe(
    ctx: click.Context,
    display: Display,
    /,
    *,
    from_file: Sequence[Path],
    bootstrap_server: str | None,
    command_config: Path | None,
    probes: ProbesChoice,
    retention: RetentionFlags,
    groups: Sequence[str],
    all_groups: bool,
    view: str,
    types: Sequence[str],
    verbose: bool,
    sort: str,
    with_lag: bool,
    at: int | None,
    fail_on: Sequence[str],
    rules: Path | None,
    output: str,
) -> None:
    """Print groups as Kafka's tools describe them, each kind as its own tool does, from the log alone.

    json and jsonl print everything that is known of each group, whatever the view; with --history the rows
    of the table.
    """
    from groupreplay.streaming.inspection.fail_on import Findings, wanted_names
    from groupreplay.streaming.inspection.history import history, history_table
    from groupreplay.streaming.inspection.inspection import (
        DescribeView,
        choose,
        describe_tables,
        pictures,
        require,
    )

    if all_groups == bool(groups):
        raise click.UsageError("Name groups with --group, or take --all-groups.")
    is_history = view == "history"
    if is_history and fail_on:
        raise click.UsageError("--fail-on is about groups as they are: take another view than --history.")
    findings = Findings(wanted_names(fail_on))
    with reading(
        from_file,
        bootstrap_server,
        command_config,
        probes,
        groups or None,
        retention=retention,
        rules=rules,
        until_ms=at,
        member_events=is_history,
    ) as (driver, rows):
        found = history(driver, rows) if is_history else pictures(driver, rows, findings)
    where = ", ".join(map(str, from_file)) or rows.cluster_id
    if is_history:
        wanted = {name.lower() for name in types}
        chosen = [row for row in found if not wanted or row["group_type"] in wanted]
        tables, failing = [history_table(chosen)], {}
    else:
        chosen = choose(found, types=types)
        if with_lag:
            from groupreplay.streaming.inspection import expiry

            chosen = expiry.with_lag(chosen, need_connection(rows))
        tables, failing = (
            describe_tables(chosen, DescribeView(view), rows, verbose=verbose, by_expiry=sort == "expires"),
            findings.lines(chosen, driver),
        )
    # A group that has lost its offsets is often gone.
    require({*(one["group_id"] for one in found), *failing}, groups, where)
    _show(tables, chosen, output, colour=display.colour)
    _fail(ctx, failing)


def _show(
    tables: Sequence[Table], documents: Sequence[Mapping[str, Any]], output: str, *, colour: bool
) -> None:
    """One table below the other; CSV has one heading for all of them."""
    from groupreplay.streaming.inspection.inspection import merged
    from groupreplay.streaming.text.terminal import Output, print_table, show

    if Output(output) is not Output.TABLE:
        show(merged(tables), documents, Output(output), colour=colour)
        return
    for place, table in enumerate(tables):
        if place:
            click.echo()
        print_table(table, colour=colour)


@click.command()
@input_options
@option("--key-hex", metavar="HEX", help="Decode this one record's key …")
@option("--value-hex", metavar="HEX", help="… and this value; without one the record is a tombstone.")
@option("--partition", "partitions", type=int, multiple=True, help="Only this partition; may be repeated.")
@option("--offset", type=int, help="Only the record at this offset.")
@option("--with-position", is_flag=True, help="Put partition, offset and timestamp in front.")
@option("--strict", is_flag=True, help="Exit with 5 when a record was skipped or malformed.")
@redact_options
@output_option("jsonl", "json")
@display_options
@click.pass_context
def decode(
    ctx: click.Context,
    /,
    *,
    from_file: Sequence[Path],
    bootstrap_server: str | None,
    command_config: Path | None,
    key_hex: str | None,
    value_hex: str | None,
    partitions: Sequence[int],
    offset: int | None,
    with_position: bool,
    strict: bool,
    redaction: Redaction | None,
    output: str,
) -> None:
    """Print records as the JSON that Kafka's own formatters print, one object a line.

    What cannot be decoded is counted on stderr.
    """
    from groupreplay.state.policy.redaction import redacted
    from groupreplay.streaming.inspection.decode import Tally, decode_rows
    from groupreplay.streaming.text.terminal import Progress, json_line, print_json_array, safe_line

    if key_hex is not None or value_hex is not None:
        click.echo(json_line(redacted(_decode_hex(key_hex, value_hex), redaction)))
        return
    tally = Tally()
    with Progress("records read") as progress:
        rows = open_rows(from_file, bootstrap_server, command_config, partitions, progress=progress)
        decoded = decode_rows(rows, tally, with_position=with_position, offset=offset)
        records = (redacted(record, redaction) for record in decoded)
        if output == "json":
            print_json_array(records, progress.close)
        else:
            for record in records:
                progress.close()
                click.echo(json_line(record))
    for line in tally.lines():
        click.echo(safe_line(line), err=True)
    if strict and not tally.clean:
        ctx.exit(ExitCode.DATA)


def _decode_hex(key_hex: str | None, value_hex: str | None) -> dict[str, Any]:
    from groupreplay.streaming.inspection.decode import bytes_of_hex, decode_record

    if key_hex is None:
        raise click.UsageError("--value-hex needs --key-hex: the key says what the value is.")
    key = bytes_of_hex(key_hex, "--key-hex")
    value = None if value_hex is None else bytes_of_hex(value_hex, "--value-hex")
    decoded = decode_record(key, value)
    if not isinstance(decoded, dict):
        raise GroupReplayError(f"the record cannot be decoded: {decoded.reason}", exit_code=ExitCode.DATA)
    return decoded
