"""Names of the lanes of a session: `edge`, `edge:DM` and `core:JOB`.

The edge lane of the home conversation is `edge`. Each further conversation of an agent has an edge lane of
its own, named after its DM. Compare lanes with `is_edge` and `is_core` only: a lane that a comparison with a
literal does not know gets the model, tools and budget of a core job (docs/decisions/0074).
"""

EDGE_LANE = "edge"
"""The lane of the home conversation."""
EDGE_LANE_PREFIX = "edge:"
CORE_LANE_PREFIX = "core:"
MAX_LANE = 200
"""Maximum length on the wire. A name of a DM has 64 characters at most, one of a job 40."""


def edge_lane(dm: str, home_dm: str) -> str:
    """Return the lane name of a conversation."""
    return EDGE_LANE if dm == home_dm else f"{EDGE_LANE_PREFIX}{dm}"


def core_lane(job_name: str) -> str:
    """Return the lane name of a core job."""
    return f"{CORE_LANE_PREFIX}{job_name}"


def is_home(lane: str) -> bool:
    """Return whether a lane talks to the user in the home conversation."""
    return lane == EDGE_LANE


def is_edge(lane: str) -> bool:
    """Return whether a lane talks to a user."""
    return lane == EDGE_LANE or lane.startswith(EDGE_LANE_PREFIX)


def is_core(lane: str) -> bool:
    """Return whether a lane is a core job."""
    return lane.startswith(CORE_LANE_PREFIX)


def edge_lane_of(lane: str) -> str:
    """Return an edge lane itself, and for every other lane the one of the home conversation."""
    return lane if is_edge(lane) else EDGE_LANE


def dm_of(lane: str, home_dm: str) -> str | None:
    """Return the conversation of an edge lane, or None for any other lane."""
    if lane == EDGE_LANE:
        return home_dm
    return lane.removeprefix(EDGE_LANE_PREFIX) if lane.startswith(EDGE_LANE_PREFIX) else None
