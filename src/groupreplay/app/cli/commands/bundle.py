"""``groupreplay bundle``: groupreplay and its libraries as one archive for spark-submit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.options import file_flag, flag, force_flag


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSettings:
    """The flags of ``bundle``."""

    output_file: Path = file_flag(
        "Archive to write, *.tar.gz; job.py is written beside it.", "-o", required=True
    )
    spark: str = flag(
        "Spark of the platform: a line or a release, 3.5 or 3.5.4.", required=True, metavar="VERSION"
    )
    scala: str | None = flag("Scala of that Spark; by default 2.12 for 3.5, else 2.13.", metavar="VERSION")
    python: str | None = flag("Python of the platform, such as 3.11; by default this one.", metavar="VERSION")
    platform: str | None = flag(
        "Machine type of the platform; by default that of this machine.",
        type=click.Choice(("x86_64", "aarch64")),
    )
    force: bool = force_flag()


@with_settings("bundle", BundleSettings)
def command(settings: BundleSettings) -> None:
    """Write an archive of groupreplay and its libraries, and job.py; print the spark-submit lines.

    For a cluster whose machines have Python but not these libraries (docs/platforms.md). The archive can be for
    another Python and another machine type than those of this machine. pip downloads the libraries, with its own
    settings.
    """
    from groupreplay.app.bundle.builder import build_bundle
    from groupreplay.app.bundle.target import bundle_target, spark_release

    spark = spark_release(settings.spark, settings.scala)
    target = bundle_target(settings.python, settings.platform, spark)
    bundle = build_bundle(settings.output_file, spark, target, force=settings.force)
    size = bundle.archive.stat().st_size / 1_000_000
    click.echo(
        f"{bundle.archive}: groupreplay and {len(bundle.wheels)} libraries, {size:.0f} MB; {bundle.program}",
        err=True,
    )
    click.echo(bundle.submission.script, nl=False)
