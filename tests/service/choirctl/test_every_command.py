"""Every command of choirctl, given once as it is meant, by the real program to a real stack of two agents.

What each refuses is in the modules beside this one.
"""

import json
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from choir_common.skill_folders.folder import read_skill_folder
from choir_common.wire.config_schema import config_reference
from tests.support.shell import ChoirctlRunner
from tests.support.skill_folders import write_skill
from tests.support.stack import EmbeddedStack, running_stack

NOWHERE = "http://127.0.0.1:9/v1"
CHANGES: dict[str, Any] = {
    "policy": [
        {"action": "deny", "tools": ["choir.email.*"], "recipients": ["*@evil.org"], "why": "no"},
        {"action": "ask", "lanes": ["core"]},
        {"action": "ask", "paths": ["asked.txt"], "why": "it is watched"},
    ],
    "hooks": {
        "deploys": {"agent": "main", "secret": "hook-key", "template": "It is {{ status }}."}
    },
    "models": {"quick": {"model": "quick", "endpoint": NOWHERE}},
    "tts": {"eleven": {"model_id": "m", "endpoint": NOWHERE, "secret": "voice-key"}},
    "voice_profiles": {"calm": {"tts": "eleven", "voice_id": "v"}},
}
PATIENCE_S = 200.0


def prepare(home: Path) -> None:
    """Add to a fresh home what the commands are about: a second agent, with a repository of its own."""
    file = home / "config.json"
    config = json.loads(file.read_text())
    config["workspaces"]["spare"] = {"path": str(home / "workspaces/spare")}
    config["dms"]["second"] = {"gateway": "console", "user_id": "second"}
    trigger = {"agent": "main", "folder": str(home / "scans")}
    file.write_text(json.dumps({**config, **CHANGES, "triggers": {"scans": trigger}}))
    ChoirctlRunner(home).succeeds(*init_helper(home))


def init_helper(home: Path) -> tuple[str, ...]:
    """Return the words that make the agent `helper-1` and its repository."""
    repository = str(home / "helper.git")
    names = ("--workspace", "spare", "--llm", "quick", "--dm", "second")
    return ("agent", "init", "helper-1", "--repo", repository, *names)


@pytest.fixture(scope="module")
def stack() -> Iterator[EmbeddedStack]:
    with running_stack(prepare=prepare) as running:
        yield running


@pytest.fixture(scope="module")
def shell(stack: EmbeddedStack) -> ChoirctlRunner:
    return ChoirctlRunner(stack.home, stack.env)


def session_of(shell: ChoirctlRunner, agent: str = "main") -> str:
    return str(shell.data("session", "list", agent)[0]["session_id"])


def until_asked(shell: ChoirctlRunner, request_type: str) -> str:
    """Return the id of a pending request of a type once there is one."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        for row in shell.data("approval", "list"):
            if row["request_type"] == request_type and row["status"] == "pending":
                return str(row["approval_id"])
        assert time.monotonic() < deadline, f"nobody asks for {request_type}"
        time.sleep(0.2)


def until_approval(shell: ChoirctlRunner, approval: str, state: str) -> dict[str, Any]:
    """Return a request once it has come to a state."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found: dict[str, Any] = shell.data("approval", "show", approval)
        if found["state"] == state:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


def test_a_choir_tells_its_version_its_state_and_its_health(shell: ChoirctlRunner) -> None:
    assert shell.data("version")["version"]
    assert shell.data("doctor")["ok"]
    status = shell.data("status")
    assert status["ready"] and {a["agent_id"] for a in status["agents"]} == {"main", "helper-1"}
    # until the agent's first heartbeat no lane is reported
    deadline = time.monotonic() + PATIENCE_S
    while "AT WORK" not in (shown := shell.succeeds("status", "--verbose")):
        assert time.monotonic() < deadline, shown
        time.sleep(0.2)
    assert "main waits for you in the conversation console" in shell.succeeds("status")


def test_a_state_directory_and_an_agent_are_made(stack: EmbeddedStack, tmp_path: Path) -> None:
    home = stack.home / "n"  # a path in which sockets fit
    shell = ChoirctlRunner(home)
    assert str(home / "config.json") in shell.data("init")["made"]
    assert shell.succeeds("init") == "", "made once"
    made = shell.data("agent", "init", "helper-1", "--repo", str(tmp_path / "helper.git"))
    assert made["made"] == ["workspaces.helper-1", "dms.helper-1", "agents.helper-1"]
    assert (tmp_path / "helper.git/refs/heads/main").is_file()
    assert shell.data("agent", "delete", "helper-1", "--yes")["removed"][0] == "agents.helper-1"


def test_somebody_is_talked_to(shell: ChoirctlRunner) -> None:
    assert "rehearsal" in shell.succeeds("chat", "-m", "hello")
    assert shell.succeeds("chat", given="hello again").strip()


def test_the_policy_is_listed_and_explained(shell: ChoirctlRunner) -> None:
    assert [rule["action"] for rule in shell.data("policy", "list")] == ["deny", "ask", "ask"]
    assert "recipients=*@evil.org" in shell.succeeds("policy", "list")
    mail = ("policy", "explain", "main", "choir.email.send")
    denied = shell.succeeds(*mail, '{"to": ["x@evil.org"]}')
    assert "deny: The call is refused." in denied and "Rule 0 of config.json decides: no" in denied
    explained = shell.data(*mail, '{"to": ["ann@example.com"]}')
    assert (explained["decision"]["action"], explained["rules"][0]["unmet"]) == (
        "ask",
        ["recipients"],
    )
    assert "A default rule of Choir" in shell.succeeds(*mail, '{"to": ["ann@example.com"]}')
    in_a_job = shell.data("policy", "explain", "main", "choir.exec", "{}", "--lane", "core")
    assert in_a_job["decision"]["rule"] == 1 and in_a_job["may_contact_others"]
    assert "no agent" in shell.fails(3, "policy", "explain", "nobody", "choir.exec")
    assert "not JSON" in shell.fails(2, "policy", "explain", "main", "choir.exec", "{")
    page = ("policy", "explain", "main", "choir.web.browse", '{"url": "https://new.example/"}')
    assert "New to this agent: new.example" in shell.succeeds(*page)
    assert shell.data("policy", "hosts", "main") == []
    assert "no agent" in shell.fails(3, "policy", "hosts", "nobody")
    assert shell.data("policy", "grants") == []
    assert "no grant" in shell.fails(3, "policy", "revoke", "grant_1")


def test_the_logs_are_audited(shell: ChoirctlRunner) -> None:
    shell.succeeds("chat", "-m", "hello")
    assert "All events are signed" in shell.succeeds("session", "verify", session_of(shell))
    (first_key,) = shell.data("audit", "anchors")["keys"]
    assert shell.data("audit", "rotate")["keys"][0] == first_key
    report = shell.data("audit", "verify")
    assert report["faults"] == [] and all(log["ok"] for log in report["logs"])
    assert "intact" in shell.succeeds("audit", "verify")
    assert "No stored anchor" in shell.fails(3, "audit", "verify", "--root", "0" * 64)


def test_the_cost_of_calls_is_told(shell: ChoirctlRunner) -> None:
    shell.succeeds("chat", "-m", "hello")
    report = shell.data("cost", "--by", "model")
    assert report["total"]["calls"] > 0 and report["total"]["prompt_tokens"] > 0
    # the rehearsal model costs nothing
    assert "$0.00" in shell.succeeds("cost")


def test_a_schedule_is_added_changed_listed_shown_paused_resumed_run_and_removed(
    shell: ChoirctlRunner,
) -> None:
    words = ("--every", "1h", "--remind", "drink water", "--zone", "Europe/Berlin")
    number = str(shell.data("schedule", "add", "main", *words)["schedule_id"])
    assert [view["text"] for view in shell.data("schedule", "list", "main")] == ["drink water"]
    assert "every 1h" in shell.succeeds("schedule", "list")
    changes = ("--every", "2h", "--text", "drink tea", "--max-failures", "3")
    updated = shell.data("schedule", "update", number, *changes)
    assert (updated["summary"], updated["text"], updated["max_failures"]) == (
        "every 2h",
        "drink tea",
        3,
    )
    assert updated["words"].endswith(
        f"choirctl schedule update {number} --text drink tea --every 2h --max-failures 3"
    )
    assert "Nothing is to be changed" in shell.fails(2, "schedule", "update", number)
    assert "exactly one" in shell.fails(2, "schedule", "update", number, "--in", "5m", *changes)
    assert shell.data("schedule", "run", number)["runs"][0]["manual"]
    assert "drink tea" in shell.succeeds("schedule", "show", number)
    assert shell.data("schedule", "pause", number)["state"] == "paused"
    assert "paused already" in shell.fails(5, "schedule", "pause", number)
    assert shell.data("schedule", "resume", number)["state"] == "active"
    assert "removed" in shell.succeeds("schedule", "remove", number)
    assert "no schedule" in shell.fails(3, "schedule", "show", number).casefold()
    weekly = ("schedule", "add", "main", "--every", "1w")
    job = shell.data(*weekly, "--job", "tidy up")
    skill = shell.data(*weekly, "--skill", "report", "--job", '{"week": "last"}')
    bare = shell.data(*weekly, "--skill", "report")
    assert [(view["kind"], view["text"], view["skill"]) for view in (job, skill, bare)] == [
        ("job", "tidy up", ""),
        ("skill", '{"week": "last"}', "report"),
        ("skill", "Run the skill report.", "report"),
    ]
    assert bare["words"].endswith("--every 1w --skill report --job Run the skill report.")
    assert "exactly one" in shell.fails(2, *weekly, "--skill", "report", "--remind", "x")
    one_time = ("schedule", "add", "main", "--in", "5m")
    assert "exactly one" in shell.fails(2, *one_time)
    assert "exactly one" in shell.fails(2, *one_time, "--at", "08:00", "--remind", "x")
    assert "not a duration" in shell.fails(2, *one_time[:-1], "soon", "--remind", "x")


def test_a_hook_is_listed_and_tried_and_what_arrived_is_shown(
    shell: ChoirctlRunner, tmp_path: Path
) -> None:
    assert "the secret hook-key is not set" in shell.succeeds("hook", "list")
    assert [view["path"] for view in shell.data("hook", "list")] == ["/v1/hooks/deploys"]
    assert shell.data("hook", "deliveries", "deploys") == []
    body = ("--body", '{"status": "ok"}')
    assert "It is ⟦ok⟧." in shell.succeeds("hook", "test", "deploys", *body)
    file = tmp_path / "body.json"
    file.write_text('{"status": "late"}')
    sent = shell.data("hook", "test", "deploys", "--file", str(file), "--send")
    (arrived,) = shell.data("hook", "deliveries", "deploys")
    assert (arrived["delivery_id"], arrived["text"]) == (sent["delivery_id"], "It is ⟦late⟧.")
    assert "exactly one" in shell.fails(2, "hook", "test", "deploys")
    assert "no hook" in shell.fails(3, "hook", "deliveries", "none").casefold()


def test_a_watched_folder_is_listed_with_what_arrived(shell: ChoirctlRunner) -> None:
    assert "scans" in shell.succeeds("trigger", "list")
    assert [view["name"] for view in shell.data("trigger", "list")] == ["scans"]
    assert shell.data("trigger", "deliveries", "scans") == []
    assert "no trigger" in shell.fails(3, "trigger", "deliveries", "none").casefold()


def test_an_agent_is_listed_shown_told_and_cancelled(shell: ChoirctlRunner) -> None:
    assert {view["agent_id"]: view["state"] for view in shell.data("agent", "list")} == {
        "main": "running",
        "helper-1": "stopped",
    }
    shown = shell.succeeds("agent", "status", "main")
    for fact in ("session", "lane edge", "workspace", "budget left", "up", "settings", "heartbeat"):
        assert any(line.lstrip().startswith(fact) for line in shown.splitlines()), fact
    assert "applied" in shown
    assert shell.data("agent", "inject", "main", "be brief")["agent_id"] == "main"
    assert shell.data("agent", "cancel", "main")["agent_id"] == "main"
    task = ("main", "count to three", "--key", "k")
    job = shell.data("agent", "start-job", *task, "--wait", "200")
    assert (job["outcome"], type(job["result"]["text"])) == ("completed", str)
    assert shell.data("agent", "start-job", *task)["job_id"] == job["job_id"]


def test_an_agent_is_built_started_updated_restarted_and_stopped(shell: ChoirctlRunner) -> None:
    built = shell.data("agent", "build", "helper-1")
    (outcome,) = built["result"]["agents"]
    assert outcome["outcome"] == "built" and outcome["agent_repo_commit"]
    begun = shell.data("agent", "start", "helper-1", "--llm", "default")
    assert begun["bindings"]["llm"] == "default"
    assert "helper-1" in shell.succeeds("agent", "update", "helper-1")
    everyone = {
        one["agent_id"]: one for one in shell.data("agent", "update-all")["result"]["agents"]
    }
    assert everyone["helper-1"]["outcome"] == "skipped" and set(everyone) == {"main", "helper-1"}
    again = shell.data("agent", "restart", "helper-1")
    assert again["bindings"] == begun["bindings"] and again["session_id"] != begun["session_id"]
    assert shell.data("agent", "stop", "helper-1")["state"] == "stopped"
    listed = shell.data("operation", "list")
    kinds = [view["kind"] for view in listed]
    assert kinds[:3] == ["agent update-all", "agent update", "agent build"]
    last = listed[-1]["operation_id"]
    assert shell.data("operation", "show", last)["result"] == built["result"]
    assert "succeeded" in shell.succeeds("operation", "show", last, "--follow")


def test_a_model_and_a_voice_are_listed_shown_and_chosen(shell: ChoirctlRunner) -> None:
    assert {"default", "quick", "eleven"} == {view["name"] for view in shell.data("model", "list")}
    assert shell.data("model", "set", "main", "--llm", "quick")["llm"] == "quick"
    assert "quick" in shell.succeeds("model", "get", "main")
    assert shell.data("model", "set", "main", "--llm", "default")["llm"] == "default"
    assert [view["name"] for view in shell.data("voice", "list")] == ["calm"]
    assert shell.data("voice", "set", "main", "calm")["voice_profile"] == "calm"
    assert "calm" in shell.succeeds("voice", "get", "main")


def test_a_session_is_listed_shown_read_verified_and_summed_up(shell: ChoirctlRunner) -> None:
    session = session_of(shell)
    assert session in shell.succeeds("session", "list")
    assert shell.data("session", "show", session)["agent_id"] == "main"
    events = [
        json.loads(line)
        for line in shell.succeeds("session", "events", session, "--json").splitlines()
    ]
    assert [event["rev"] for event in events] == list(range(1, len(events) + 1))
    assert shell.data("session", "verify", session)["ok"]
    assert shell.data("session", "compact", session)["session_id"] == session


def test_a_core_job_is_listed_and_cancelled(shell: ChoirctlRunner) -> None:
    session = session_of(shell)
    shell.succeeds("chat", "-m", "#spawn slow: #delay=30000")
    deadline = time.monotonic() + PATIENCE_S
    while "core:slow" not in {job["lane"] for job in shell.data("session", "cores", session)}:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert "slow" in shell.succeeds("session", "cores", session)
    assert shell.data("session", "cancel", session, "slow")["session_id"] == session


def test_a_workspace_is_listed_and_emptied(stack: EmbeddedStack, shell: ChoirctlRunner) -> None:
    file = stack.home / "workspaces/spare/notes.txt"
    file.parent.mkdir(exist_ok=True)
    file.write_text("x")
    assert {view["name"] for view in shell.data("workspace", "list")} == {"main", "spare"}
    assert shell.data("workspace", "reset", "spare", "--yes")["result"]["removed"] >= 1
    assert not file.exists()


def test_a_request_is_listed_shown_approved_rolled_back_and_rejected(shell: ChoirctlRunner) -> None:
    for window in (81, 82):
        asked = json.dumps({"patch": {"event_window": window}, "reason": "to remember more"})
        shell.succeeds("chat", "-m", f"/tool choir.propose.config_change {asked}")
    waiting = {a["payload"]["patch"]["event_window"]: a for a in shell.data("approval", "list")}
    first, second = (waiting[window]["approval_id"] for window in (81, 82))
    assert first in shell.succeeds("approval", "list")
    assert "event_window" in shell.succeeds("approval", "show", first)
    assert "2 requests wait" in shell.succeeds("status")
    assert "approved" in shell.succeeds("approval", "approve", first)
    until_approval(shell, first, "applied")
    assert shell.data("approval", "rollback", first)["state"] in ("reverting", "rolled_back")
    until_approval(shell, first, "rolled_back")
    assert shell.data("approval", "reject", second)["status"] == "rejected"


def test_a_yes_for_the_session_is_listed_used_and_revoked(shell: ChoirctlRunner) -> None:
    arguments = json.dumps({"path": "asked.txt", "content": "x"})
    say = ("chat", "-m", f"/tool choir.fs.write {arguments}")

    def waiting() -> list[dict[str, Any]]:
        return [a for a in shell.data("approval", "list") if a["request_type"] == "call"]

    with ThreadPoolExecutor(1) as threads:
        talk = threads.submit(shell.succeeds, *say)
        deadline = time.monotonic() + PATIENCE_S
        while not (asked := waiting()):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        approval = asked[0]["approval_id"]
        assert "it is watched" in shell.succeeds("approval", "show", approval)
        assert "approved" in shell.succeeds("approval", "approve", approval, "--scope", "session")
        talk.result(PATIENCE_S)
    shell.succeeds(*say)  # nobody is asked
    assert waiting() == []
    assert "equal calls" in shell.succeeds("policy", "grants")
    (grant,) = shell.data("policy", "grants")
    explained = shell.succeeds("policy", "explain", "main", "choir.fs.write", arguments)
    assert f"Grant {grant['grant_id']} answers" in explained
    assert "revoked" in shell.succeeds("policy", "revoke", grant["grant_id"])
    assert shell.data("policy", "grants") == []


def test_the_configuration_is_shown_loaded_compared_and_applied(
    stack: EmbeddedStack, shell: ChoirctlRunner
) -> None:
    assert shell.data("config", "show")["config"]["voice_profiles"]
    file = stack.home / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "event_window": 66}))
    assert "event_window" in shell.succeeds("config", "load")
    assert "staged" in shell.succeeds("status")
    assert [c["path"] for c in shell.data("config", "diff")["changes"]] == ["event_window"]
    assert shell.data("config", "apply")["changes"]
    assert "main" in shell.succeeds("config", "report")
    assert shell.succeeds("config", "schema", "--markdown") == config_reference()
    shell.succeeds("config", "set", "event_window", "67")
    assert [c["after"] for c in shell.data("config", "load")["changes"]] == [67]
    assert shell.data("config", "set", "event_window", "66")["before"] == 67


def test_a_harness_is_configured_tested_and_listed(
    stack: EmbeddedStack, shell: ChoirctlRunner
) -> None:
    script = Path(__file__).parents[2] / "support" / "rough_harness.py"
    program = shutil.copy(script, stack.home / "workspaces" / "main" / "harness.py")
    command = [sys.executable, str(program), "jsonl"]
    harness = {"coder": {"command": command, "protocol": "jsonl", "agents": ["main"]}}
    shell.succeeds("config", "set", "harnesses", json.dumps(harness))
    shell.succeeds("config", "load")
    shell.succeeds("config", "apply")
    deadline = time.monotonic() + PATIENCE_S
    while not shell.data("harness", "list") and time.monotonic() < deadline:
        time.sleep(0.2)
    (row,) = shell.data("harness", "test", "coder", "--wait", str(PATIENCE_S))
    assert (row["state"], row["protocol"], row["protocol_version"]) == ("ready", "jsonl", "1")
    assert row["about"] == "lines 0.1"
    shell.succeeds("config", "set", "harnesses", "{}")
    shell.succeeds("config", "load")
    shell.succeeds("config", "apply")


def test_an_mcp_server_is_added_approved_tested_listed_and_removed(
    stack: EmbeddedStack, shell: ChoirctlRunner
) -> None:
    script = Path(__file__).parents[2] / "support" / "mcp_server.py"
    program = shutil.copy(script, stack.home / "workspaces" / "main" / "calculator.py")
    command = ("--", sys.executable, str(program))
    shell.succeeds("mcp", "add", "calculator", "--agent", "main", "--workspace", *command)
    shell.succeeds("config", "load")
    shell.succeeds("config", "apply")
    shell.succeeds("approval", "approve", until_asked(shell, "mcp_tools"))
    tools = shell.data("mcp", "test", "calculator", "--wait", str(PATIENCE_S))[0]["tools"]
    assert "mcp.calculator.add" in tools
    assert [row["state"] for row in shell.data("mcp", "list")] == ["ready"]
    mcp_file = stack.home / "mcp.json"
    mcp_file.write_text(json.dumps({"mcpServers": {"Calculator": {"command": "other"}}}))
    row = shell.data("mcp", "import", str(mcp_file), "--agent", "main")["servers"][0]
    assert (row["name"], row["result"]) == ("calculator", "kept")
    shell.succeeds("mcp", "remove", "calculator")
    shell.succeeds("config", "load")
    shell.succeeds("config", "apply")


def test_a_skill_is_added_listed_shown_approved_and_removed(
    stack: EmbeddedStack, shell: ChoirctlRunner
) -> None:
    folder = write_skill(stack.home / "from", 4)
    digest = read_skill_folder(folder).sha256
    shell.succeeds("skill", "add", str(folder), "--agent", "main", "--sha256", digest)
    assert [row["state"] for row in shell.data("skill", "list")["skills"]] == ["approved"]
    script = stack.home / "agents/main/skills/recipe-scaling/scripts/count.py"
    script.write_text("print('changed')")
    assert [row["state"] for row in shell.data("skill", "list")["skills"]] == ["changed"]
    changed = shell.data("skill", "show", "recipe-scaling")["sha256"]
    shell.succeeds("skill", "approve", "recipe-scaling", "--sha256", changed)
    shell.succeeds("config", "load")
    shell.succeeds("config", "apply")
    shell.succeeds("agent", "update", "main")
    read = ("chat", "-m", '/tool choir.skill.read {"skill": "recipe-scaling"}')
    assert "Step 1 of recipe-scaling" in shell.succeeds(*read)
    # the files of the second yes, in the workspace, by a real agent
    call = '{"skill": "recipe-scaling", "script": "scripts/count.py"}'
    assert "changed" in shell.succeeds("chat", "-m", f"/tool choir.skill.run {call}")
    shell.succeeds("skill", "remove", "recipe-scaling")
    shell.succeeds("config", "load")
    shell.succeeds("config", "apply")
    assert shell.data("skill", "list")["skills"] == []
    assert "Step 1 of recipe-scaling" not in shell.succeeds(*read)


@pytest.mark.nightly
def test_a_tool_is_written_checked_tried_and_used_as_the_guide_says(
    stack: EmbeddedStack, shell: ChoirctlRunner
) -> None:
    """The lines of docs/tools.md in their order, then a change, a broken tool, and a removal."""
    guide = (Path(__file__).parents[3] / "docs/tools.md").read_text()
    [block] = re.findall(r"^```\n(choirctl tool.*?)```", guide, re.DOTALL | re.MULTILINE)
    commands = [shlex.split(line, comments=True)[1:] for line in block.splitlines()]
    said = [shell.succeeds(*words) for words in commands]
    assert shell.data("tool", "try", "main", "text.count")["differences"] == []
    assert shell.data("tool", "check", "main")["faults"] == []
    assert shell.data("tool", "list")["main"]["tools"][0]["name"] == "text.count"
    assert "errors. Tools that the agent loads: text.count" in said[1]
    assert "Result  success" in said[2] and '"words": 2' in said[3] and "ok" in said[5]
    ask = ("chat", "-m", '/tool text.count {"text": "three short words"}')
    assert '"words":3' in shell.succeeds(*ask).replace(" ", "")
    session = shell.data("agent", "status", "main")["session_id"]

    program = stack.home / "agents/main/tools/text_count/run.py"
    program.write_text(program.read_text().replace("len(words)}", "len(words) + 1}"))
    shell.succeeds("tool", "new", "main", "files.count", "--template", "shell")
    [outcome] = shell.data("agent", "update", "main")["result"]["agents"]
    assert outcome["tools"] == {"new": ["files.count"], "changed": ["text.count"], "removed": []}
    assert '"words":4' in shell.succeeds(*ask).replace(" ", "")

    shell.succeeds("tool", "new", "main", "page.fetch", "--template", "http")
    fetch = stack.home / "agents/main/tools/page_fetch/run.py"
    fetch.write_text(fetch.read_text().replace("https://example.com", "http://10.1.2.3"))
    fetched = json.loads(stack.run("tool", "try", "main", "page.fetch", "--json", check=False))
    assert [made["decision"] for made in fetched["connections"]] == ["refused"], fetched
    assert fetched["status"] == "error" and "10.1.2.3:80" in fetched["refusals"][0]
    shutil.rmtree(fetch.parent)
    fetch.parent.with_suffix(".json").unlink()

    manifest = program.parent.with_suffix(".json")
    good = manifest.read_text()
    manifest.write_text(good.replace("text.count", "choir_text.count"))
    running = shell.data("agent", "status", "main")["session_id"]
    assert "text_count.json:3" in shell.fails(2, "agent", "update", "main")
    assert "is reserved" in shell.fails(2, "tool", "try", "main", "text.count", "{}")
    assert '"words":4' in shell.succeeds(*ask).replace(" ", "")
    assert shell.data("agent", "status", "main")["session_id"] == running != session
    shutil.rmtree(program.parent)
    manifest.unlink()
    [outcome] = shell.data("agent", "update", "main")["result"]["agents"]
    assert outcome["tools"] == {"new": [], "changed": [], "removed": ["text.count"]}


def test_a_secret_is_set_listed_handed_on_and_deleted(shell: ChoirctlRunner) -> None:
    shell.succeeds("secret", "set", "voice-key", given="a-value-nobody-sees\n")
    listed = {row["name"]: row for row in shell.data("secret", "list")}
    assert listed["voice-key"]["set"] and listed["voice-key"]["used_by"]
    assert shell.data("secret", "apply")["added"] == ["voice-key"]
    shell.succeeds("secret", "delete", "voice-key")
    assert "not set" in shell.succeeds("secret", "list")


def test_a_log_is_read(shell: ChoirctlRunner) -> None:
    lines = shell.succeeds("logs", "main", "--no-follow", "--json").splitlines()
    assert lines and all(json.loads(line)["message"] for line in lines)
    assert len(shell.succeeds("logs", "choird", "--no-follow", "--lines", "2").splitlines()) == 2


def test_the_database_is_looked_at_migrated_backed_up_and_restored_elsewhere(
    stack: EmbeddedStack, shell: ChoirctlRunner
) -> None:
    assert all(not each["missing"] for each in shell.data("db", "status")["schemas"])
    assert not any(shell.data("db", "migrate")["applied"].values())
    backup = str(stack.home / "all.backup")
    assert "database.dump" in shell.data("db", "backup", backup)["parts"]
    other = ChoirctlRunner(stack.home / "o", stack.env)
    assert other.data("db", "restore", backup)["sessions"] >= 1
    assert "choir_control" in other.succeeds("db", "status")


def test_a_choir_with_https_shows_what_its_clients_trust_and_goes_down() -> None:
    with running_stack(env={"CHOIR_TLS": "on"}) as stack:
        shell = ChoirctlRunner(stack.home, stack.env)
        shown = shell.data("tls")
        assert Path(shown["authority"]).is_file() and shown["sha256"] in shell.succeeds("tls")
        assert "ready" in shell.succeeds("status", "--url", f"https://127.0.0.1:{stack.http_port}")
        assert shell.data("up", "--detach")["phase"] == "ready"
        assert shell.data("down")["stopped"]
        shell.fails(6, "status")


@pytest.mark.nightly
def test_choir_is_upgraded_to_the_version_that_is_installed(
    stack: EmbeddedStack, shell: ChoirctlRunner
) -> None:
    revision = shell.data("db", "status")["schemas"][0]["revision"]
    done = shell.data("upgrade", "--from", "installed", "--yes")
    assert done["outcome"] == "done" and done["was_running"]
    assert shell.data("status")["ready"]
    assert shell.data("db", "status")["schemas"][0]["revision"] == revision
    assert shell.data("backup", "list")["backups"][0]["file"] == done["backup"]
    # what an interrupted upgrade left is completed by the next `up`
    record = stack.home / "upgrade/upgrade.json"
    record.write_text(json.dumps({**done, "outcome": None, "step": "finish"}))
    shell.succeeds("up", "--detach", "--json")
    assert json.loads(record.read_text())["outcome"] == "done"
    newer = stack.home / "data/version.json"
    version = json.loads(newer.read_text())
    version["newest"]["choir_control.migrations"] = "9999_of_the_future.sql"
    shell.succeeds("down")
    newer.write_text(json.dumps({**version, "choir": "9.0"}))
    refused = shell.fails(1, "up", "--detach", "--json")
    assert "9999_of_the_future" in refused and Path(done["backup"]).name in refused
    newer.unlink()
    shell.succeeds("up", "--detach", "--json")
