"""A standby beside the runs of one topic, in simulated time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.run.standby import Standby
from support.ordeals.run_topic import World


@dataclass
class AsideChecks:
    """A process's own checks, numbered by the times of their beginnings; they take seconds, beside the waiting."""

    world: World
    seconds: float = 0.0
    fail_aside: bool = False
    began: list[float] = field(default_factory=list)

    def ready(self) -> int:
        """All checks, while nothing else happens."""
        self.began.append(self.world.now)
        self.world.pass_time(self.seconds)
        return len(self.began)

    def begin(self, _: object) -> Callable[[], int]:
        """The same aside."""
        self.began.append(self.world.now)
        number, done_at = len(self.began), self.world.now + self.seconds

        def result() -> int:
            if self.fail_aside:
                raise GroupReplayError("no broker has answered", exit_code=ExitCode.CONNECTION)
            self.world.pass_time(max(done_at - self.world.now, 0.0))
            return number

        return result


def standby(world: World, lock: list[bool] | None = None, checks: AsideChecks | None = None) -> Standby[int]:
    """A process that waits beside the runs of the world."""
    checks = checks or AsideChecks(world)
    owner = world.owner()
    owner.is_standby = True
    answers = [True] if lock is None else lock
    return Standby(
        owner=owner,
        take_lock=lambda: answers.pop(0) if len(answers) > 1 else answers[0],
        lock_owner=lambda: "host h, process 5",
        has_ended=lambda one: one.host == "mine",
        require_alive=lambda: None,
        ready=checks.ready,
        begin=checks.begin,
        stop=owner.stop,
        show=world.lines.append,
        clock=lambda: world.now,
    )
