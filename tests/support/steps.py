"""How far the random walks go: a few seconds each in `make test`, a million steps each in `make nightly`."""

import hypothesis

NIGHTLY = "nightly"
NIGHTLY_STEPS = 1_000_000
STEPS_IN_A_WALK = 100


def register_profiles() -> None:
    """Make the profile that `make nightly` names known to hypothesis."""
    hypothesis.settings.register_profile(
        NIGHTLY,
        # walks end early now and then, so there are a few more than would be needed
        max_examples=NIGHTLY_STEPS * 5 // 4 // STEPS_IN_A_WALK,
        stateful_step_count=STEPS_IN_A_WALK,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )


def walks(number: int, steps: int) -> hypothesis.settings:
    """Return the settings of a state machine: these bounds by day, the profile's by night."""
    if hypothesis.settings.get_current_profile_name() == NIGHTLY:
        return hypothesis.settings()
    return hypothesis.settings(max_examples=number, stateful_step_count=steps, deadline=None)
