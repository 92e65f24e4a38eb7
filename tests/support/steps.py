"""How far the random walks go: a few seconds each in `make test`, a million steps each in `make nightly`."""

from typing import ClassVar

import hypothesis
from hypothesis.stateful import RuleBasedStateMachine, invariant

NIGHTLY = "nightly"
DAILY = "daily"
NIGHTLY_STEPS = 1_000_000
STEPS_IN_A_WALK = 100
# hypothesis remembers every choice of a run: in parts, a million steps take 100 MB instead of gigabytes
PARTS_OF_A_NIGHT = 25


def register_profiles() -> None:
    """Make the profile that `make nightly` names known to hypothesis, and by day let no example be timed."""
    hypothesis.settings.register_profile(
        NIGHTLY,
        stateful_step_count=STEPS_IN_A_WALK,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    # an example that took 300 ms on a busy machine is no fault; the option of the command line counts more
    hypothesis.settings.register_profile(DAILY, deadline=None)
    hypothesis.settings.load_profile(DAILY)


def walks(number: int, steps: int, *, usual_length: int) -> hypothesis.settings:
    """Return the settings of a state machine: these bounds by day, a million steps by night.

    `usual_length` is how far a walk of at most a hundred steps gets on average: some end early, where
    nothing more can be done.
    """
    if hypothesis.settings.get_current_profile_name() != NIGHTLY:
        return hypothesis.settings(max_examples=number, stateful_step_count=steps)
    walks_needed = NIGHTLY_STEPS * 21 // 20 // usual_length
    return hypothesis.settings(max_examples=walks_needed // PARTS_OF_A_NIGHT + 1)


def parts() -> range:
    """Return the runs of a state machine: one by day, many by night."""
    nightly = hypothesis.settings.get_current_profile_name() == NIGHTLY
    return range(PARTS_OF_A_NIGHT if nightly else 1)


class CountedMachine(RuleBasedStateMachine):
    """A state machine that knows how many steps all of its walks took."""

    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        # a walk's start is looked at as well
        type(self).steps -= 1

    @invariant()
    def count(self) -> None:
        """Count a step."""
        type(self).steps += 1


def walked_far(machine: type[CountedMachine]) -> bool:
    """Say how far a machine got; by night it has to be a million steps."""
    print(f"{machine.__name__}: {machine.steps} steps")
    nightly = hypothesis.settings.get_current_profile_name() == NIGHTLY
    return not nightly or machine.steps >= NIGHTLY_STEPS
