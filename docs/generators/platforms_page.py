"""Parts of ``docs/platforms.md``: what an archive contains for each Spark line, and the commands that submit it."""

from __future__ import annotations

from groupreplay.app.bundle.archive import LIBRARIES, LINES, BundleTarget, spark_release
from groupreplay.app.bundle.builder import Submission

#: The example of the page.
EXAMPLE = Submission(
    spark=spark_release("3.5.6"), target=BundleTarget("3.11", "x86_64"), archive="env.tar.gz"
)


def lines_table() -> str:
    """One row for each Spark line."""
    names = ("numpy", "pandas", "pyarrow")
    rows = [
        f"| `--spark` | release that was tried | Scala, the default first | `--python` | {' | '.join(names)} |",
        "| --- " * (4 + len(names)) + "|",
    ]
    for line, needs in LINES.items():
        ranges = {**LIBRARIES, **needs.libraries}
        cells = [line, needs.connector, ", ".join(needs.scalas), ", ".join(needs.pythons)]
        rows.append("| " + " | ".join([*cells, *(f"`{ranges[name]}`" for name in names)]) + " |")
    return "\n".join(rows)


def commands() -> str:
    """The printed commands for both deploy modes, in shell blocks."""
    client = f"{EXAMPLE.unpack}\n{EXAMPLE.command('yarn', 'client')}"
    return (
        "With the driver on this machine:\n\n"
        f"```sh\n{client}\n```\n\n"
        "With the driver on the cluster:\n\n"
        f"```sh\n{EXAMPLE.command('yarn', 'cluster')}\n```"
    )
