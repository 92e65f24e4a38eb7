"""What a prompt cannot carry: kept whole as an artifact, bounded, clean of secrets, and readable again."""

from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from choir_agent.arbiter.call_execution import CallOutcome, execute_call, with_summary
from choir_agent.arbiter.rulings import CheckedCall
from choir_agent.locks.claim import keys_overlap
from choir_agent.tools.artifacts import ArtifactStore
from choir_agent.tools.builtin.fs_read import FsReadTool
from choir_agent.tools.builtin.shell import ShellTool
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.program_runner import ProgramRunner
from choir_agent.tools.tool import CallContext, Tool, ToolFailed, ToolOutput
from choir_agent.tools.truncate import fits_limit, truncate_output
from choir_agent.tools.workspace import ARTIFACTS_DIR, Workspace, create_staging
from choir_agent.tools.workspace_files import WorkspaceFiles
from choir_common.eventlog.tool_results import TOOL_OUTPUT
from choir_common.telemetry import Redactor
from choir_common.wire.events import Exposure
from choir_common.wire.model import JsonObject

CANARY = "canary-77aa-secret"


@dataclass(frozen=True)
class Says:
    """A tool that says one thing."""

    says: JsonObject
    mask: bool = False
    exposure: Exposure = "both"
    fails: bool = False

    @property
    def manifest(self) -> ToolManifest:
        runtime = RuntimeView(
            5_000, "none", idempotent=True, source=TOOL_OUTPUT, prompt_mask=self.mask,
            exposure=self.exposure,
            max_output=10_000,
        )  # fmt: skip
        return ToolManifest(LlmView("t.says", "Says.", {"type": "object"}), runtime)

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        if self.fails:
            raise ToolFailed("broken", "It broke.", self.says)
        return ToolOutput(self.says, "done")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path)
    create_staging(made)
    return made


async def outcome_of(workspace: Workspace, tool: Tool, arguments: JsonObject) -> CallOutcome:
    redactor = Redactor()
    redactor.add_secrets([CANARY])
    context = CallContext("call_1", "edge")
    permit = CheckedCall(tool, arguments, "", ())
    return await execute_call(permit, context, ArtifactStore(workspace, redactor))


async def test_a_small_output_stays_as_it_is_with_its_summary_first(workspace: Workspace) -> None:
    outcome = await outcome_of(workspace, Says({"a": 1}), {})
    assert list(outcome.output.items()) == [("summary", "done"), ("a", 1)]
    assert (outcome.artifact_ref, outcome.masked) == (None, False)


def test_a_result_that_failed_is_summed_up_by_the_beginning_of_its_message() -> None:
    failed: JsonObject = {"code": "not_found", "message": "There is no 'x'. Look again."}
    assert with_summary(failed) == {"summary": "There is no 'x'", **failed}
    assert with_summary({"code": "odd"})["summary"] == "odd"
    assert with_summary({"truncated": True, "text": "x"})["summary"]
    assert with_summary({"summary": "mine", "message": "x"})["summary"] == "mine"
    # an external tool may write anything there
    assert list(with_summary({"a": 1, "summary": 7, "message": "No."}).items()) == [
        ("summary", "No."), ("a", 1), ("message", "No."),
    ]  # fmt: skip


@pytest.mark.parametrize("fails", [False, True])
async def test_a_large_output_is_cut_and_can_be_read_whole(
    workspace: Workspace, fails: bool
) -> None:
    whole: JsonObject = {"text": "begin" + "x" * 100_000 + "end", "items": [*range(9_000)]}
    outcome = await outcome_of(workspace, Says(whole, fails=fails), {})
    assert fits_limit(outcome.output, 10_000)
    assert outcome.output["truncated"] is True
    text = str(outcome.output["text"])
    assert text.startswith("begin") and text.endswith("end")
    reference = str(outcome.artifact_ref)
    assert reference.startswith(".choirtmp/artifacts/")
    kept = orjson.loads((workspace.root / reference).read_bytes())
    assert kept.items() >= whole.items()
    again = FsReadTool(workspace, WorkspaceFiles(workspace))
    context = CallContext("c", "edge", workspace.canonical(reference))
    read = (await again.run(context, {"path": reference, "offset": 0, "length": 100})).output
    assert "next_offset" in read


async def test_a_masked_output_is_always_kept_and_an_error_never_masked(
    workspace: Workspace,
) -> None:
    said: JsonObject = {"summary": "s", "page": "p"}
    outcome = await outcome_of(workspace, Says(said, mask=True, exposure="core"), {})
    assert (outcome.masked, outcome.exposure) == (True, "core")
    assert (workspace.root / str(outcome.artifact_ref)).exists()
    assert not (await outcome_of(workspace, Says(said, mask=True, fails=True), {})).masked


async def test_no_secret_gets_into_an_artifact(workspace: Workspace) -> None:
    said: JsonObject = {"text": "x" * 20_000 + CANARY, CANARY: [{"deep": CANARY}], "nul": "a\x00b"}
    outcome = await outcome_of(workspace, Says(said), {})
    content = (workspace.root / str(outcome.artifact_ref)).read_text()
    assert CANARY not in content
    assert "redacted" in content


async def test_the_same_output_is_kept_once_and_the_oldest_goes(workspace: Workspace) -> None:
    artifacts = ArtifactStore(workspace, Redactor(), max_total_bytes=50_000)
    first = artifacts.keep({"n": 0, "x": "x" * 9_000})
    assert artifacts.keep({"n": 0, "x": "x" * 9_000}) == first
    stranger = workspace.root / ARTIFACTS_DIR / "mine.txt"
    stranger.write_text("not an artifact")
    references = [artifacts.keep({"n": n, "x": "x" * 9_000}) for n in range(1, 30)]
    kept = {f"{ARTIFACTS_DIR}/{path.name}" for path in (workspace.root / ARTIFACTS_DIR).iterdir()}
    assert kept == {*references[-5:], f"{ARTIFACTS_DIR}/mine.txt"}
    assert artifacts.keep({"x": "x" * 60_000}) is None


@pytest.mark.parametrize("place", [".choirtmp", ".choirtmp/artifacts"])
async def test_an_artifact_never_leaves_through_a_link(tmp_path: Path, place: str) -> None:
    outside = tmp_path / "outside"
    (outside / "artifacts").mkdir(parents=True)
    (outside / "0123456789abcdef.json").write_text("theirs")
    (tmp_path / "ws").mkdir()
    workspace = Workspace(tmp_path / "ws")
    create_staging(workspace)
    link = workspace.root / place
    link.rename(workspace.root / "moved")
    link.symlink_to(outside)
    assert ArtifactStore(workspace, Redactor(), max_total_bytes=10).keep({"x": 1}) is None
    assert ArtifactStore(workspace, Redactor()).keep({"x": 1}) is None
    assert sorted(path.name for path in outside.rglob("*")) == [
        "0123456789abcdef.json",
        "artifacts",
    ]
    # the next start puts the link aside and goes on
    create_staging(workspace)
    assert ArtifactStore(workspace, Redactor()).keep({"x": 1}) is not None
    assert sorted(path.name for path in outside.rglob("*.json")) == ["0123456789abcdef.json"]


async def test_a_long_commands_output_is_kept(workspace: Workspace) -> None:
    shell = ShellTool(ProgramRunner(workspace.root, "/tmp"))
    arguments: JsonObject = {"command": "seq 1 60000"}
    outcome = await outcome_of(workspace, shell, arguments)
    assert fits_limit(outcome.output, 60_000)
    assert str(outcome.output["stdout"]).endswith("60000\n")
    kept = orjson.loads((workspace.root / str(outcome.artifact_ref)).read_bytes())
    assert kept["stdout"].count("\n") == 60_000


@pytest.mark.parametrize(
    "output",
    [
        {"a": "é" * 90_000},
        {"a": ["x" * 50] * 90_000},
        {"a": {"b": {"c": ["y" * 9_000] * 90}}},
        {f"k{n}": n for n in range(90_000)},
        {"a": [[[n] * 10] * 10 for n in range(900)]},
    ],
)
def test_whatever_is_large_is_made_to_fit(output: JsonObject) -> None:
    assert fits_limit(truncate_output(output, 10_000), 10_000)


def test_the_staging_area_has_a_lock_of_its_own() -> None:
    for other in ("workspace", "file:.", "file:.choirtmp", "file:a", "browser_tab"):
        assert not keys_overlap("choirtmp", other)
    assert keys_overlap("choirtmp", "choirtmp")
