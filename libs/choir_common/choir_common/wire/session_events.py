"""The events of a session's life: its start, resumptions and end, snapshots, and what it took over.

Imported from `events`, which joins them with the events of the work itself.
"""

from typing import Literal

from choir_common.wire.json import JsonObject
from choir_common.wire.model import Wire
from choir_common.wire.summaries import LaneSummary, SummaryTopic


class SessionStarted(Wire):
    """The first event of a session."""

    type: Literal["session_started"] = "session_started"
    agent_id: str
    epoch: int
    continues: str | None = None
    image_version: str = ""
    seed: tuple[LaneSummary, ...] = ()
    """What the session it continues had summed up."""


class CarriedEvent(Wire):
    """An event of an earlier session that this one continues, copied so that its prompts still show it.

    It changes no state: no message is taken up, no turn opened and nothing archived because of it.
    """

    type: Literal["carried_event"] = "carried_event"
    session_id: str
    """The session whose log it was written to."""
    rev: int
    at: str
    event_type: str
    payload: JsonObject


class SessionResumed(Wire):
    """The same session goes on under a new epoch after a crash."""

    type: Literal["session_resumed"] = "session_resumed"
    epoch: int


class SessionSuspended(Wire):
    """The agent was stopped with a turn or a job open; its next epoch goes on with them."""

    type: Literal["session_suspended"] = "session_suspended"
    reason: str


class SessionStopped(Wire):
    """The agent ended the session in good order; `summary` is the agent's own, if it made one."""

    type: Literal["session_stopped"] = "session_stopped"
    reason: str
    summary: str | None = None
    topics: tuple[SummaryTopic, ...] = ()
    """The same in parts, for long-term memory (spec 11.5)."""


class TurnParked(Wire):
    """The edge lane puts a turn aside that waits only for a human, because something else is to be done."""

    type: Literal["turn_parked"] = "turn_parked"
    turn_id: str


class TurnUnparked(Wire):
    """The edge lane goes on with a turn that was put aside."""

    type: Literal["turn_unparked"] = "turn_unparked"
    turn_id: str


class Snapshot(Wire):
    """The state the log adds up to here, so that recovery need not replay what came before."""

    type: Literal["snapshot"] = "snapshot"
    state: JsonObject
    window_from: int
    """The first event still needed for a prompt or an open job."""


class SessionAbandoned(Wire):
    """Control gave up resuming (poison loop) and told the user; written under a fresh epoch."""

    type: Literal["session_abandoned"] = "session_abandoned"
    dm: str
    text: str
    answers: tuple[str, ...] = ()
