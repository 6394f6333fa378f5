"""Stories of the demo: each can be played, and has a scenario of its name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from groupreplay.app.cli.program import cli
from groupreplay.app.demo.scenario import TOPICS, Action, Step
from groupreplay.app.demo.stories import SIMULATED_ONLY, STORIES, Story
from groupreplay.coordinator.simulation.scenarios import SCENARIOS


def alive_after_each_step(story: Story) -> Iterator[tuple[Step, set[str]]]:
    """Which members run when a step begins, by the table alone."""
    alive: set[str] = set()
    for step in story.steps:
        yield step, set(alive)
        if step.action is Action.START:
            alive.add(step.actor)
        elif step.action in {Action.LEAVE, Action.DIE}:
            alive.remove(step.actor)


@pytest.mark.parametrize("story", STORIES.values(), ids=list(STORIES))
def test_steps_are_in_order_and_possible(story: Story) -> None:
    """Nobody starts twice, ends before the start, or removes a group that still has members; all have a part."""
    assert [step.at_s for step in story.steps] == sorted(step.at_s for step in story.steps)
    for step, alive in alive_after_each_step(story):
        if step.action in {Action.LEAVE, Action.DIE, Action.HANG}:
            assert step.actor in alive
        elif step.action is Action.DELETE_GROUP:
            assert story.actors[step.actor].group not in {story.actors[name].group for name in alive}
        else:
            assert step.actor not in alive
    assert {step.actor for step in story.steps} == set(story.actors)
    assert {actor.topic for actor in story.actors.values()} <= set(TOPICS)
    assert story.steps[-1].at_s + 8 <= story.seconds, "some seconds are left to see the end"


def test_a_story_has_the_name_of_a_simulated_scenario() -> None:
    """Each scenario is played, or there is a reason why not; kinds of one fixed size are only simulated."""
    fixed = {name for name in SCENARIOS if name.startswith(("rolling-restart-", "stuck-"))}
    assert {*STORIES, *SIMULATED_ONLY} == set(SCENARIOS) - fixed
    assert not set(STORIES) & set(SIMULATED_ONLY)


def test_what_cannot_be_played_is_refused() -> None:
    """With the reason, and the command that shows it."""
    run = CliRunner().invoke(cli, ["demo", "--scenario", "cluster-restart"])
    assert run.exit_code == 2
    assert "because it needs several brokers" in run.stderr
    assert "groupreplay simulate --scenario cluster-restart" in run.stderr
