"""A change of config.json that a human approved: exactly that, once, and it can be taken back."""

import json

import pytest

from choir_common.errors import Conflict, InvalidRequest
from choir_common.wire.model import JsonObject
from tests.service.evolution.scene import PATCH, Scene


async def test_what_was_approved_is_written_put_in_force_and_told(scene: Scene) -> None:
    before = scene.configuration.current.version
    done = await scene.carried_out("config_change", PATCH)
    assert done.state == "applied" and "version" in done.detail
    assert scene.config()["budgets"] == {"max_core_jobs": 3}
    current = scene.configuration.current
    assert current.config.budgets.max_core_jobs == 3 and current.version > before
    (said,) = await scene.said()
    assert "Done" in said and done.approval_id in said
    assert scene.renewed == []


async def test_the_human_sees_each_value_before_and_after(scene: Scene) -> None:
    shown = await scene.found(await scene.ask("config_change", {"patch": {"event_window": 60}}))
    assert shown.basis["changes"] == [{"path": ["event_window"], "after": 60}]
    assert shown.state == "pending"


async def test_nothing_is_done_before_or_without_a_yes(scene: Scene) -> None:
    approval = await scene.ask("config_change", PATCH)
    assert await scene.workshop().worker.run_pending() == 0
    await scene.desk().decide(approval, "rejected", "operator")
    assert await scene.workshop().worker.run_pending() == 0
    assert (await scene.found(approval)).state == "rejected" and "budgets" not in scene.config()


@pytest.mark.parametrize(
    "patch",
    [
        {"dms": {"evil": {"gateway": "console", "user_id": "x", "admin": True}}},
        {"models": {"default": {"endpoint": "http://evil"}}},
        {"agents": {"other": {"defaults": {"llm": "default"}}}},
        {"agents": {"main": {"repo": {"url": "/evil"}}}},
        {"budgets": {"max_core_jobs": "many"}},
        {"budgets": {"max_core_jobs": 10_000}},
        {"agents": {"main": {"defaults": {"llm": "unknown"}}}},
        {"budgets": None},
        {},
        "x",
    ],
)
async def test_what_must_not_or_cannot_be_changed_is_refused_before_anyone_is_asked(
    scene: Scene, patch: JsonObject
) -> None:
    with pytest.raises(InvalidRequest):
        await scene.ask("config_change", {"patch": patch, "reason": "because"})


async def test_an_edit_by_hand_after_it_was_shown_is_left_alone_and_it_is_asked_anew(
    scene: Scene,
) -> None:
    approval = await scene.approve("config_change", PATCH)
    edited = json.dumps({**scene.config(), "event_window": 70})
    scene.config_file.write_text(edited)
    await scene.workshop().worker.run_pending()
    done = await scene.found(approval)
    assert done.state == "failed" and "Propose it again" in done.detail
    assert scene.config_file.read_text() == edited
    assert scene.configuration.current.config.budgets.max_core_jobs != 3


async def test_a_request_that_was_altered_in_the_database_is_not_carried_out(scene: Scene) -> None:
    for column, value in (
        ("payload", '{"patch": {"budgets": {"max_core_jobs": 60}}, "reason": "fewer"}'),
        ("basis", "{}"),
        ("digest", "0" * 64),
    ):
        approval = await scene.approve("config_change", PATCH)
        cast = "" if column == "digest" else "::json"
        await scene.database.execute(
            f"UPDATE choir_control.pending_approvals SET {column} = $2{cast} WHERE approval_id = $1",
            approval,
            value,
        )
        await scene.workshop().worker.run_pending()
        assert (await scene.found(approval)).state == "failed"
        assert "budgets" not in scene.config()


async def test_taking_back_restores_what_was_changed_and_keeps_what_else_was_edited(
    scene: Scene,
) -> None:
    done = await scene.carried_out("config_change", PATCH)
    scene.config_file.write_text(json.dumps({**scene.config(), "event_window": 70}))
    evolution = scene.workshop().worker
    await evolution.roll_back(done.approval_id, "operator")
    assert (await scene.found(done.approval_id)).state == "reverting"
    await scene.workshop().worker.run_pending()
    assert (await scene.found(done.approval_id)).state == "rolled_back"
    assert scene.config()["event_window"] == 70
    assert "max_core_jobs" not in scene.config().get("budgets", {})
    with pytest.raises(Conflict):
        await evolution.roll_back(done.approval_id, "operator")


async def test_what_was_changed_again_since_is_not_taken_back(scene: Scene) -> None:
    done = await scene.carried_out("config_change", PATCH)
    scene.config_file.write_text(json.dumps({**scene.config(), "budgets": {"max_core_jobs": 5}}))
    with pytest.raises(Conflict, match=r"budgets.* by hand"):
        await scene.workshop().worker.roll_back(done.approval_id, "operator")
    assert (await scene.found(done.approval_id)).state == "applied"
