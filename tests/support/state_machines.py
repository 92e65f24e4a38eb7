"""Length of hypothesis runs: seconds each in `make test`; in `make nightly` a million steps of each state
machine, and a hundred times the examples of long properties."""

from typing import ClassVar

import hypothesis
from hypothesis.stateful import RuleBasedStateMachine, invariant

NIGHTLY = "nightly"
DAILY = "daily"
NIGHTLY_STEPS = 1_000_000
STEPS_IN_A_WALK = 100
# hypothesis stores every choice of a run: split in parts, a million steps use 100 MB instead of gigabytes
PARTS_OF_A_NIGHT = 25


def register_profiles() -> None:
    """Register the hypothesis profiles of `make nightly` and `make test`; both have no
    deadline."""
    hypothesis.settings.register_profile(
        NIGHTLY,
        stateful_step_count=STEPS_IN_A_WALK,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    # a slow example on a busy machine is no failure; --hypothesis-profile overrides this default
    hypothesis.settings.register_profile(DAILY, deadline=None)
    hypothesis.settings.load_profile(DAILY)


def machine_settings(number: int, steps: int, *, usual_length: int) -> hypothesis.settings:
    """Return the settings of a state machine: these limits by day, a million steps in the nightly run.

    `usual_length` is the mean length of a walk of at most a hundred steps: some walks end early, when no
    rule applies.
    """
    if hypothesis.settings.get_current_profile_name() != NIGHTLY:
        return hypothesis.settings(max_examples=number, stateful_step_count=steps)
    walks_needed = NIGHTLY_STEPS * 21 // 20 // usual_length
    return hypothesis.settings(max_examples=walks_needed // PARTS_OF_A_NIGHT + 1)


def example_count(daily: int) -> int:
    """Return the number of examples of a property: `daily`, or a hundred times as many in the nightly run."""
    nightly = hypothesis.settings.get_current_profile_name() == NIGHTLY
    return daily * 100 if nightly else daily


def machine_runs() -> range:
    """Return the parts of a state machine's run: one by day, several in the nightly run."""
    nightly = hypothesis.settings.get_current_profile_name() == NIGHTLY
    return range(PARTS_OF_A_NIGHT if nightly else 1)


class CountingMachine(RuleBasedStateMachine):
    """A state machine that counts the steps of all its walks."""

    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        # the invariant also runs at the start of a walk, which is no step
        type(self).steps -= 1

    @invariant()
    def count(self) -> None:
        """Count a step."""
        type(self).steps += 1


def enough_steps(machine: type[CountingMachine]) -> bool:
    """Print a machine's step count; return whether it is high enough (a million in the nightly run)."""
    print(f"{machine.__name__}: {machine.steps} steps")
    nightly = hypothesis.settings.get_current_profile_name() == NIGHTLY
    return not nightly or machine.steps >= NIGHTLY_STEPS
