"""Names of lanes: one for each conversation and one for each core job."""

import pytest

from choir_common.lanes import MAX_LANE, core_lane, dm_of, edge_lane, is_core, is_edge
from choir_common.wire.browser import BrowseRequest
from choir_common.wire.operator import CompactMemory
from choir_common.wire.signals import SIGNAL_BODY, CancelSignal, CompactSignal, InjectSignal

LONGEST_DM = "d" * 64


def test_the_home_conversation_has_the_lane_of_an_agent_with_one_conversation() -> None:
    assert edge_lane("phone", "phone") == "edge"
    assert edge_lane("desk", "phone") == "edge:desk"


@pytest.mark.parametrize("dm", ["desk", "Desk_2.a-b", "core", "edge", LONGEST_DM])
def test_the_lane_of_every_conversation_is_an_edge_lane_and_no_core_job(dm: str) -> None:
    lane = edge_lane(dm, "home")
    assert is_edge(lane) and not is_core(lane)
    assert len(lane) <= MAX_LANE


@pytest.mark.parametrize(
    "lane", [core_lane("edge"), core_lane("edge:desk"), "session", "control", "edgewise"]
)
def test_other_lanes_are_no_edge_lanes(lane: str) -> None:
    assert not is_edge(lane)


def test_requests_accept_the_lane_of_every_conversation() -> None:
    lane = edge_lane(LONGEST_DM, "home")
    assert CompactMemory(lane=lane).lane == lane
    assert BrowseRequest.model_fields["lane"].metadata[0].max_length == MAX_LANE


def test_an_edge_lane_has_the_conversation_that_it_is_named_after() -> None:
    for dm in ("home", "other"):
        assert dm_of(edge_lane(dm, "home"), "home") == dm
    assert dm_of("core:read", "home") is None and dm_of("session", "home") is None


@pytest.mark.parametrize(
    ("stored", "signal"),
    [
        ('{"kind":"inject","text":"x","sent_at":null}', InjectSignal(text="x", dm="")),
        ('{"kind":"cancel","job":null}', CancelSignal(dm="")),
        ('{"kind":"compact","lane":null}', CompactSignal(dm="")),
    ],
)
def test_signals_that_older_versions_stored_concern_the_home_conversation(
    stored: str, signal: InjectSignal | CancelSignal | CompactSignal
) -> None:
    assert SIGNAL_BODY.validate_json(stored) == signal
