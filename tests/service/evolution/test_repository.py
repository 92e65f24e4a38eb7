"""Skills, tools and merges that a human approved: exactly what was shown, on the configured ref."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from choir_common.errors import Conflict, InvalidRequest, Unavailable
from choir_common.wire.model import JsonObject
from tests.service.evolution.scene import SESSION, SKILL, Scene

FILES: dict[str, str | bytes] = {
    "README.md": "two\n",
    "skills/old.json": "{}\n",
    "skills/new.json": "{}\n",
}


async def test_a_branch_that_goes_on_from_the_ref_becomes_it(scene: Scene) -> None:
    asked = scene.propose(FILES)
    done = await scene.carried_out("repo_change", asked)
    assert done.state == "applied" and scene.renewed == ["main"]
    assert scene.remote.git("rev-parse", "main") == asked["commit"]
    assert str(asked["branch"]) not in scene.remote.git("for-each-ref"), "merged, and deleted"
    assert "+two" in str(done.basis["diff"]) and "skills/new.json" in str(done.basis["diffstat"])


async def test_a_branch_beside_the_ref_is_merged_by_the_agents_git_identity(scene: Scene) -> None:
    first = scene.remote.git("rev-parse", "main")
    scene.point("start", first)
    moved = scene.remote.commit({"README.md": "one\n", "skills/old.json": "{}\n", "other": "x"})
    scene.point(
        "main", scene.remote.git("commit-tree", f"{moved}^{{tree}}", "-p", first, "-m", "on")
    )
    asked = scene.propose(FILES, base="start")
    done = await scene.carried_out("repo_change", asked)
    assert done.state == "applied"
    assert scene.files() == ["README.md", "other", "skills/new.json", "skills/old.json"]
    parents = scene.remote.git("log", "-1", "--format=%an <%ae>|%P", "main").split("|")
    assert parents[0] == "Bot <bot@example.org>" and str(asked["commit"]) in parents[1]


async def test_a_rejected_branch_stays_and_nothing_else_changes(scene: Scene) -> None:
    before = scene.remote.git("rev-parse", "main")
    asked = scene.propose(FILES)
    approval = await scene.ask("repo_change", asked)
    await scene.desk().decide(approval, "rejected", "operator")
    await scene.workshop().worker.run_pending()
    assert scene.remote.git("rev-parse", "main") == before
    assert scene.remote.git("rev-parse", str(asked["branch"])) == asked["commit"]


@pytest.mark.parametrize("which", ["main", "branch"])
async def test_a_ref_or_branch_that_moved_after_it_was_shown_is_refused(
    scene: Scene, which: str
) -> None:
    asked = scene.propose(FILES)
    approval = await scene.approve("repo_change", asked)
    moved = scene.propose({**FILES, "evil": "x"}, slug="evil")["commit"]
    branch = "main" if which == "main" else str(asked["branch"])
    scene.point(branch, str(moved))
    before = scene.remote.git("rev-parse", "main")
    await scene.workshop().worker.run_pending()
    done = await scene.found(approval)
    assert done.state == "failed" and "Propose it again" in done.detail
    assert scene.remote.git("rev-parse", "main") == before


def _link(scene: Scene) -> str:
    blob = scene.remote.blob(b"/etc/passwd")
    return _branch(scene, scene.remote.raw_tree(("120000", "link", blob)))


def _submodule(scene: Scene) -> str:
    return _branch(scene, scene.remote.raw_tree(("160000", "sub", "1" * 40)))


def _git_directory(scene: Scene) -> str:
    inner = scene.remote.raw_tree(("100644", "config", scene.remote.blob(b"x")))
    return _branch(scene, scene.remote.raw_tree(("40000", ".GIT", inner)))


def _binary(scene: Scene) -> str:
    return str(scene.propose({"tool": b"\x7fELF\0\0\0"}, slug="bad")["commit"])


def _no_utf8(scene: Scene) -> str:
    return str(scene.propose({"tool": b"caf\xe9\n"}, slug="bad")["commit"])


def _huge(scene: Scene) -> str:
    return str(scene.propose({"big": "line\n" * 60_000}, slug="bad")["commit"])


def _nothing(scene: Scene) -> str:
    return str(
        scene.propose({"README.md": "one\n", "skills/old.json": "{}\n"}, slug="bad")["commit"]
    )


def _stranger(scene: Scene) -> str:
    keep = scene.remote.git("rev-parse", "main")
    commit = scene.remote.commit({"a": "b"})
    scene.point("main", keep)
    scene.point(f"proposal/{SESSION}/bad", commit)
    return commit


def _branch(scene: Scene, tree: str) -> str:
    commit = scene.remote.git("commit-tree", tree, "-p", "main", "-m", "p")
    scene.point(f"proposal/{SESSION}/bad", commit)
    return commit


@pytest.mark.parametrize(
    "make", [_link, _submodule, _git_directory, _binary, _no_utf8, _huge, _nothing, _stranger]
)
async def test_what_cannot_be_shown_or_must_not_be_there_is_refused_before_anyone_is_asked(
    scene: Scene, make: Callable[[Scene], str]
) -> None:
    asked: JsonObject = {
        "branch": f"proposal/{SESSION}/bad",
        "commit": make(scene),
        "reason": "because",
    }
    with pytest.raises((InvalidRequest, Unavailable)):
        await scene.ask("repo_change", asked)
    assert (
        await scene.database.fetchval("SELECT count(*) FROM choir_control.pending_approvals") == 0
    )


@pytest.mark.parametrize(
    ("branch", "commit"),
    [
        ("main", None),
        ("proposal/ses_2/new", None),
        (f"proposal/{SESSION}/../../main", None),
        (f"proposal/{SESSION}/--upload-pack=x", None),
        (f"proposal/{SESSION}/none", None),
        (f"proposal/{SESSION}/new", "0" * 40),
        (f"proposal/{SESSION}/new", "HEAD"),
        (7, None),
    ],
)
async def test_only_the_sessions_own_branch_at_exactly_its_commit_can_be_proposed(
    scene: Scene, branch: object, commit: str | None
) -> None:
    asked = scene.propose(FILES)
    with pytest.raises(InvalidRequest):
        await scene.ask(
            "repo_change",
            {**asked, "branch": branch, "commit": commit or asked["commit"]},  # type: ignore[dict-item]
        )


async def test_no_hook_or_filter_of_the_repository_runs(scene: Scene, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    program = f"#!/bin/sh\ntouch {mark}\n"
    (scene.remote.path / "hooks").mkdir(exist_ok=True)
    for hook in ("pre-receive", "update", "post-receive", "post-update", "reference-transaction",
                 "proc-receive", "pre-push", "pre-auto-gc", "push-to-checkout"):  # fmt: skip
        path = scene.remote.path / "hooks" / hook
        path.write_text(program)
        path.chmod(0o755)
    for name in ("core.fsmonitor", "core.sshCommand", "uploadpack.packObjectsHook", "diff.external",
                 "core.alternateRefsCommand", "filter.x.smudge", "filter.x.clean", "merge.x.driver",
                 "diff.x.textconv", "diff.x.command"):  # fmt: skip
        scene.remote.git("config", name, f"touch {mark}; cat")
    (scene.remote.path / "objects/info").mkdir(exist_ok=True)
    (scene.remote.path / "objects/info/alternates").write_text(f"{scene.remote.path}/objects\n")
    asked = scene.propose({**FILES, ".gitattributes": "* filter=x merge=x diff=x\n"})
    done = await scene.carried_out("repo_change", asked)
    assert done.state == "applied" and scene.remote.git("rev-parse", "main") == asked["commit"]
    assert not mark.exists()


async def test_a_skill_is_committed_whole_and_can_be_taken_back(scene: Scene) -> None:
    before = scene.remote.git("rev-parse", "main")
    done = await scene.carried_out("skill", SKILL)
    assert done.state == "applied" and scene.renewed == ["main"]
    assert scene.files() == ["README.md", "skills/old.json", "skills/wash.json"]
    assert scene.remote.git("log", "-1", "--format=%an %P", "main") == f"Bot {before}"
    committed, shown = scene.remote.git("show", "main:skills/wash.json"), done.basis["files"]
    assert shown == {"skills/wash.json": committed + "\n"}
    evolution = scene.workshop().worker
    await evolution.roll_back(done.approval_id, "operator")
    await evolution.run_pending()
    assert (await scene.found(done.approval_id)).state == "rolled_back"
    assert scene.files() == ["README.md", "skills/old.json"] and len(scene.renewed) == 2
    assert scene.remote.git("rev-list", "--count", "main") == "3"


async def test_what_others_committed_upon_is_not_taken_back(scene: Scene) -> None:
    done = await scene.carried_out("skill", SKILL)
    after = scene.propose({"x": "y"}, slug="after")
    scene.point("main", str(after["commit"]))
    with pytest.raises(Conflict, match="Newer commits"):
        await scene.workshop().worker.roll_back(done.approval_id, "operator")


async def test_a_skill_never_replaces_another_of_its_name(scene: Scene) -> None:
    spec = SKILL["spec"]
    assert isinstance(spec, dict)
    done = await scene.carried_out("skill", {**SKILL, "spec": {**spec, "name": "old"}})
    assert done.state == "failed" and "skills/old.json" in done.detail


async def test_of_a_tool_only_words_are_committed_where_no_agent_loads_them(scene: Scene) -> None:
    tool: JsonObject = {
        "manifest": {
            "llm": {
                "name": "weather.today",
                "description": "Tells.",
                "parameters": {"type": "object"},
            },
            "runtime": {"timeout_ms": 1000, "side_effect": "none", "idempotent": True},
        },
        "behaviour": "Ask the {weather} service.",
        "reason": "asked daily",
    }
    done = await scene.carried_out("tool", tool)
    assert done.state == "applied" and scene.renewed == []
    assert [f for f in scene.files() if "weather" in f] == [
        "proposed/tools/weather.today.json",
        "proposed/tools/weather.today.md",
    ]
    assert "a human writes it" in scene.remote.git("show", "main:proposed/tools/weather.today.md")
    manifest = tool["manifest"]
    assert isinstance(manifest, dict) and isinstance(manifest["runtime"], dict)
    runtime = {**manifest["runtime"], "exec_path": "/bin/sh"}
    with pytest.raises(InvalidRequest):
        await scene.ask("tool", {**tool, "manifest": {**manifest, "runtime": runtime}})


async def test_without_a_repository_it_stays_on_record_and_says_so(scene: Scene) -> None:
    config = scene.config()
    del config["agents"]["main"]["repo"]
    scene.config_file.write_text(json.dumps(config))
    await scene.configuration.put_in_force(scene.configuration.read())
    done = await scene.carried_out("skill", SKILL)
    assert done.state == "failed" and "agents.main.repo" in done.detail
    assert not (scene.home / "repos" / "proposals").exists()


async def test_a_remote_that_is_away_is_tried_again_and_nothing_is_lost(scene: Scene) -> None:
    approval = await scene.approve("skill", SKILL)
    away = scene.remote.path.with_name("away")
    scene.remote.path.rename(away)
    evolution = scene.workshop().worker
    assert await evolution.run_pending() == 0
    assert (await scene.found(approval)).state == "applying"
    away.rename(scene.remote.path)
    assert await evolution.run_pending() == 1
    assert (await scene.found(approval)).state == "applied"


async def test_clones_nobody_needs_any_more_are_removed_and_one_with_a_planned_commit_is_kept(
    scene: Scene,
) -> None:
    workshop = scene.workshop()
    approval = await scene.ask("repo_change", scene.propose(FILES), workshop)
    clone = scene.home / "repos/proposals/main"
    await workshop.remove_idle_clones()
    assert clone.exists(), "it was used a moment ago"
    shown = await scene.found(approval)
    await scene.desk().decide(approval, "approved", "operator", shown.digest)
    scene.clock.at += 3_600
    await workshop.remove_idle_clones()
    assert clone.exists(), "what is approved is not carried out yet"
    assert await workshop.worker.run_pending() == 1
    scene.clock.at += 3_600
    await workshop.remove_idle_clones()
    assert not clone.exists()
    await workshop.worker.roll_back(approval, "operator")
    assert await workshop.worker.run_pending() == 1
    assert (await scene.found(approval)).state == "rolled_back"


async def test_a_merged_branch_that_has_gone_on_is_not_deleted(scene: Scene) -> None:
    asked = scene.propose(FILES)
    approval = await scene.approve("repo_change", asked)
    evolution = scene.workshop().worker
    assert await evolution.run_pending() == 1
    other = str(scene.propose({**FILES, "more": "x"}, slug="other")["commit"])
    assert (await scene.found(approval)).state == "applied"
    scene.point(str(asked["branch"]), other)
    await scene.workshop().worker.roll_back(approval, "operator")
    await scene.workshop().worker.run_pending()
    assert scene.remote.git("rev-parse", str(asked["branch"])) == other
