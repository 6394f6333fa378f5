"""``groupreplay demo``: a broker, consumer groups and the job on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from groupreplay.app.cli.command import display, with_settings
from groupreplay.app.cli.options import declared_as
from groupreplay.app.demo.stories import SIMULATED_ONLY, STORIES


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoSettings:
    """The flags of ``demo``; ``seconds`` None: as long as the scenario needs."""

    seconds: int | None = declared_as(
        click.option(
            "--seconds",
            type=click.IntRange(10, 3600),
            show_default="45, some scenarios longer",
            help="How long the groups run; the start of the broker and of Spark takes about 30 s more.",
        )
    )
    scenario: str = declared_as(
        click.option(
            "--scenario",
            type=click.Choice((*STORIES, *SIMULATED_ONLY)),
            default="mixed",
            show_default=True,
            help="What the groups do; some scenarios only simulate can run.",
        )
    )
    keep: bool = declared_as(
        click.option("--keep", is_flag=True, help="Keep the broker running at the end, to inspect it.")
    )
    report: Path = declared_as(
        click.option(
            "--report",
            type=click.Path(path_type=Path),
            default=Path("demo.html"),
            show_default=True,
            metavar="FILE",
            help="Where to write the report of all groups at the end; a name that exists gets a number.",
        )
    )


@with_settings("demo", DemoSettings)
def command(settings: DemoSettings) -> None:
    """Watch real consumer groups join, leave, crash and come back.

    Starts a Kafka broker on this machine (the first start downloads its jars), a few consumers and the job, and
    prints the job's events as they arrive in the topic group-events. Needs only Java 17 or 21 (17 with Spark 3.5).
    """
    if settings.scenario in SIMULATED_ONLY:
        name = settings.scenario
        raise click.UsageError(
            f"The scenario {name} cannot be run with real clients, {SIMULATED_ONLY[name]}; "
            f"simulate it: groupreplay simulate --scenario {name} -o {name}.parquet"
        )
    from groupreplay.app.demo.run import run_demo
    from groupreplay.app.text.screen import Screen

    screen = Screen(colour=display().colour)
    run_demo(STORIES[settings.scenario], settings.seconds, screen, keep=settings.keep, report=settings.report)
