"""At every wait of carrying out: somebody changes the world (S13), or the process ends (S12, R12)."""

import asyncio
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from choir_common.postgres.pool import Database
from choir_common.wire.rpc import ApprovalKind
from tests.service.evolution.scene import PATCH, SKILL, Between, Scene, cut_off
from tests.support.nightly import nightly_from
from tests.support.postgres import PASSWORD

FILES: dict[str, str | bytes] = {"README.md": "two\n", "skills/old.json": "{}\n"}
MOST_WAITS = 200
EVERY = 3 if os.environ.get("CHOIR_TEST_EVERY_CUT") == "1" else 6
"""Waits between two actions: git is started some twenty times, each start is a handful of waits."""


async def test_a_config_that_is_edited_at_any_wait_is_never_mixed_with_what_was_approved(
    scene: Scene,
) -> None:
    original, ended = scene.config_file.read_text(), False
    edited = json.dumps({**scene.config(), "event_window": 71})
    at = 0
    while not ended:
        at += 1
        scene.config_file.write_text(original)
        await scene.configuration.put_in_force(scene.configuration.read())
        approval = await scene.approve("config_change", PATCH)
        work = Between(scene.workshop().worker.run_pending(), at, lambda: _write(scene, edited))
        await work
        ended = work.waits < at
        found, in_force = await scene.worked_off(approval), scene.configuration.current.config
        assert found.state in ("applied", "failed")
        assert (in_force.budgets.max_core_jobs == 3) == (found.state == "applied")
        assert in_force.event_window != 71
        if found.state == "failed":
            assert scene.config_file.read_text() == edited
        assert at < MOST_WAITS


def _write(scene: Scene, text: str) -> None:
    scene.config_file.write_text(text)


async def test_a_config_change_cut_off_at_any_wait_is_done_once_after_the_next_start(
    scene: Scene,
) -> None:
    original, ended, at = scene.config_file.read_text(), False, 0
    while not ended:
        at += 1
        scene.config_file.write_text(original)
        await scene.configuration.put_in_force(scene.configuration.read())
        approval = await scene.approve("config_change", PATCH)
        ended = not await cut_off(scene.workshop().worker.run_pending(), at)
        assert "max_core_jobs" in scene.config_file.read_text() or (
            scene.config_file.read_text() == original
        )
        assert (await scene.worked_off(approval)).state == "applied"
        assert scene.configuration.current.config.budgets.max_core_jobs == 3
        assert sum(approval in words for words in await scene.said()) == 1
        assert at < MOST_WAITS


ALTERED = {
    "payload": (
        "payload",
        '{"patch": {"budgets": {"max_core_jobs": 60}}, "reason": "fewer"}',
    ),
    "basis": ("basis", '{"changes": [], "config": "", "version": 0}'),
    "digest": ("digest", "0" * 64),
}


@pytest.mark.parametrize("what", ALTERED)
async def test_a_request_that_is_altered_in_the_database_at_any_wait_is_never_carried_out_so(
    scene: Scene, dsn: str, what: str
) -> None:
    original, ended, at = scene.config_file.read_text(), False, 0
    failed = 0
    while not ended:
        at += 1
        scene.config_file.write_text(original)
        await scene.configuration.put_in_force(scene.configuration.read())
        approval = await scene.approve("config_change", PATCH)
        work = Between(
            scene.workshop().worker.run_pending(), at, _forger(dsn, approval, *ALTERED[what])
        )
        await work
        ended = work.waits < at
        done = await scene.worked_off(approval)
        assert done.state in ("applied", "failed"), (at, done.detail)
        # either what the human was shown, or nothing
        jobs = scene.config().get("budgets", {}).get("max_core_jobs")
        assert jobs == (3 if done.state == "applied" else None), at
        failed += done.state == "failed"
        assert at < MOST_WAITS
    assert failed, "altered before it was looked at, it must be refused"


def _forger(dsn: str, approval: str, column: str, value: str) -> Callable[[], None]:
    """Return an action that changes a request from outside and has finished when it returns."""
    cast = "" if column == "digest" else "::json"

    async def alter() -> None:
        async with Database(dsn, PASSWORD, size=1, application="forger") as database:
            await database.execute(
                f"UPDATE choir_control.pending_approvals SET {column} = $2{cast} WHERE approval_id = $1",
                approval,
                value,
            )

    def deed() -> None:
        with ThreadPoolExecutor(1) as elsewhere:
            elsewhere.submit(asyncio.run, alter()).result(30)

    return deed


@pytest.mark.parametrize("kind", nightly_from(1, ["repo_change", "skill"]))
async def test_a_commit_cut_off_at_any_wait_lands_once_after_the_next_start(
    scene: Scene, kind: ApprovalKind
) -> None:
    first, cut, at = scene.remote.git("rev-parse", "main"), True, 1
    while cut:
        scene.point("main", first)
        asked = SKILL if kind == "skill" else scene.propose(FILES)
        approval = await scene.approve(kind, asked)
        cut = await cut_off(scene.workshop().worker.run_pending(), at)
        done = await scene.worked_off(approval)
        assert done.state == "applied", (at, done.detail)
        assert scene.remote.git("rev-list", "--count", f"{first}..main") == "1"
        at += EVERY


async def test_a_lock_file_of_a_killed_git_stops_no_later_change(scene: Scene) -> None:
    first = await scene.approve("repo_change", scene.propose(FILES))
    assert (await scene.worked_off(first)).state == "applied"
    (scene.home / "repos/proposals/main/index.lock").touch()
    second = await scene.approve("skill", SKILL)
    assert (await scene.worked_off(second)).state == "applied"


@pytest.mark.parametrize("which", nightly_from(1, ["proposal", "main"]))
async def test_a_ref_that_moves_at_any_wait_never_gets_what_was_not_shown_and_loses_nothing(
    scene: Scene, which: str
) -> None:
    first, reached, at = scene.remote.git("rev-parse", "main"), True, 1
    other = str(scene.propose({"README.md": "one\n", "evil": "x"}, slug="other")["commit"])
    while reached:
        scene.point("main", first)
        asked = scene.propose(FILES)
        branch = "main" if which == "main" else str(asked["branch"])
        approval = await scene.approve("repo_change", asked)
        work = Between(scene.workshop().worker.run_pending(), at, _mover(scene, branch, other))
        await work
        reached = work.waits >= at
        done = await scene.worked_off(approval)
        now = scene.remote.git("rev-parse", "main")
        assert done.state in ("applied", "failed"), done.detail
        assert now in (first, asked["commit"], other)
        if which == "main" and reached:
            assert now == other  # what somebody else put there is never overwritten
        if which == "proposal":
            assert now == (asked["commit"] if done.state == "applied" else first)
        at += EVERY


def _mover(scene: Scene, branch: str, commit: str) -> Callable[[], None]:
    return lambda: scene.point(branch, commit)
