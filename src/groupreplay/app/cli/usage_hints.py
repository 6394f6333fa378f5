"""What to type instead, for mistakes of newcomers: a file without its flag, a flag of another command, and so on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from groupreplay.app.cli.options import ENVIRONMENT_PREFIX
from groupreplay.streaming.base.errors import did_you_mean

#: What was a command of its own once.
_REPLACED: Final[Mapping[str, str]] = {"export": "serve --metrics-only"}


class ExplainedCommand(click.Command):
    """A command that says which flag an argument needs that it does not take."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As ``click.Command``; it fails itself, with a hint."""
        ctx.allow_extra_args = True
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            ctx.fail(_unexpected(rest, {name for param in self.params for name in param.opts}))
        return rest


def _unexpected(words: Sequence[str], flags: Collection[str]) -> str:
    what, first = f"Got unexpected extra argument ({' '.join(words)})", words[0]
    if "--from-file" in flags and Path(first).exists():
        return f"{what}: a capture is given with --from-file {first}."
    if "--group" in flags:
        return f"{what}: a group is given with --group {first}."
    return f"{what}."


def unknown_command(name: str, known: Sequence[str]) -> str:
    """The error for a command that does not exist."""
    if name in _REPLACED:
        return f"No such command {name!r}: it is {_REPLACED[name]!r} now."
    near = did_you_mean(name, known).strip()
    return f"No such command {name!r}. {near[:1].upper()}{near[1:]}".strip()


def misspelt_variables(names: Collection[str], known: Callable[[], Collection[str]]) -> list[str]:
    """A line for each environment variable that is nearly the name of a setting: it has no effect.

    Others are left alone: Kubernetes makes variables of the names of services.
    """
    ours = [name for name in sorted(names) if name.startswith(ENVIRONMENT_PREFIX)]
    settings = known() if ours else ()
    return [
        f"warning: {name} has no effect: {near.strip()}"
        for name in ours
        if name not in settings and (near := did_you_mean(name, settings, 0.9))
    ]


def hint(error: click.UsageError) -> str | None:
    """What to type instead of a flag that the command does not have; None: nothing is known."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return None
    if isinstance(error.ctx.command, click.Group) and error.option_name.startswith("--"):
        return f"Flags of a command stand behind its name: groupreplay list {error.option_name} ..."
    if error.ctx.info_name == "events" and error.option_name == "--from-file":
        return "events reads what the job has written; the events of a capture: groupreplay replay --from-file FILE"
    return None
