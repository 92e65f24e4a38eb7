"""Small classes of control: the outbox's lane, the vault, the status board, lease tokens, the notifier."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from choir_common.errors import Forbidden
from choir_common.wire.messages import OutboundMessage
from choir_common.wire.rpc import ResourceBindings, StatusRequest
from choir_control.agents.sessions.reports import KEEP_ENDED_S, MAX_LANES, LaneStatusRegistry
from choir_control.configuration.secrets.store import SecretStore
from choir_control.conversations.outbox.queue import DeliveryQueue
from choir_control.log.leases.authentication import create_lease_token, digest_of, digests_equal
from choir_control.log.leases.store import Lease
from choir_control.log.signals.notifier import Notifier

LEASE = Lease("ses_1", "main", 1, b"", ResourceBindings(workspace="w", llm="m", dm="d"))


class SteppedClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 2, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds


def message(outbox_id: int) -> OutboundMessage:
    return OutboundMessage(
        outbox_id=outbox_id,
        dm="d",
        gateway="g",
        agent_id="main",
        session_id="ses_1",
        rev=outbox_id,
        kind="answer",
        text="x",
        answers=None,
        at=datetime(2026, 1, 2, tzinfo=UTC),
    )


def test_a_lane_keeps_the_order_of_ids_whatever_came_first() -> None:
    lane = DeliveryQueue()
    lane.offer(message(3))
    lane.add([message(1), message(2), message(3)])
    order = []
    while lane.first:
        order.append(lane.first.outbox_id)
        lane.remove_first()
    assert order == [1, 2, 3] and lane.idle


def test_a_lane_does_not_take_what_a_look_at_the_table_already_finished() -> None:
    lane = DeliveryQueue()
    lane.add([message(5)])
    lane.remove_first()
    lane.offer(message(5))
    assert lane.idle
    lane.rescan = True
    assert not lane.idle


def test_the_vault_hands_out_all_or_nothing() -> None:
    vault = SecretStore({"a": "1", "b": "2"})
    assert vault.get_allowed(["a", "c"], {"a", "c"}) == {"a": "1"}
    with pytest.raises(Forbidden) as caught:
        vault.get_allowed(["a", "b"], {"a"})
    assert "'b'" in caught.value.message and "2" not in caught.value.message
    assert repr(vault) == "Vault(2 secrets)"


def test_the_board_keeps_the_newest_report_of_each_lane_and_is_bounded() -> None:
    board = LaneStatusRegistry(SteppedClock())
    for state in ("IDLE", "THINKING"):
        board.post(LEASE, StatusRequest(lane="edge", state=state))
    assert [report.state for report in board.of("main", "ses_1")] == ["THINKING"]
    for number in range(MAX_LANES + 5):
        board.post(LEASE, StatusRequest(lane=f"core:{number}", state="x"))
    assert len(board.of("main", "ses_1")) == MAX_LANES
    assert board.of("main", "ses_2") == ()


def test_a_job_that_ended_stays_on_the_board_for_a_while() -> None:
    clock = SteppedClock()
    board = LaneStatusRegistry(clock)
    board.post(LEASE, StatusRequest(lane="edge", state="EDGE_IDLE"))
    for lane, state in (("core:a", "CORE_COMPLETED"), ("core:b", "CORE_REASONING")):
        board.post(LEASE, StatusRequest(lane=lane, state=state))
    clock.seconds += KEEP_ENDED_S - 1
    assert [report.lane for report in board.of("main", "ses_1")] == ["edge", "core:a", "core:b"]
    clock.seconds += 2
    assert [report.lane for report in board.of("main", "ses_1")] == ["edge", "core:b"]


def test_a_job_of_the_name_of_one_that_ended_stays() -> None:
    clock = SteppedClock()
    board = LaneStatusRegistry(clock)
    for state in ("CORE_TERMINATED", "CORE_REASONING"):
        board.post(LEASE, StatusRequest(lane="core:a", state=state))
    clock.seconds += KEEP_ENDED_S + 1
    assert [report.state for report in board.of("main", "ses_1")] == ["CORE_REASONING"]


def test_a_new_epoch_begins_with_an_empty_board() -> None:
    board = LaneStatusRegistry(SteppedClock())
    board.post(LEASE, StatusRequest(lane="core:a", state="CORE_REASONING"))
    board.post(replace(LEASE, epoch=2), StatusRequest(lane="edge", state="EDGE_IDLE"))
    assert [report.lane for report in board.of("main", "ses_1")] == ["edge"]


def test_tokens_differ_hide_themselves_and_compare_by_digest() -> None:
    first, second = create_lease_token(), create_lease_token()
    assert first.value != second.value and len(first.value) >= 43
    assert first.value not in repr(first)
    assert digests_equal(first.digest, digest_of(first.value))
    assert not digests_equal(first.digest, second.digest) and not digests_equal(None, first.digest)


async def test_a_bell_wakes_those_who_listen_to_its_key() -> None:
    bell = Notifier()
    with bell.listen("a", "b") as both, bell.listen("c") as other:
        bell.notify("b")
        await asyncio.wait_for(both.wait(), 60)
        assert not other.is_set()
        bell.notify_all()
        assert other.is_set()
    bell.notify("a")
