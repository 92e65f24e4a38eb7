"""Files never leave the workspace: GUARANTEES row S3 (paths, links, fifos, sockets, devices, swap races).

Every vector goes through what stands between a model's words and the disk: the arbiter's check, which
resolves the path, and then the tool itself.
"""

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from choir_agent.arbiter.rulings import RefuseCall, check_call
from choir_agent.tools.api_client import ApiClient
from choir_agent.tools.artifacts import ArtifactStore
from choir_agent.tools.builtin.fs_read import FsReadTool
from choir_agent.tools.builtin.fs_search import FsSearchTool
from choir_agent.tools.builtin.fs_write import FsWriteTool
from choir_agent.tools.builtin.tts_speak import TtsSpeakTool
from choir_agent.tools.program_runner import ProgramRunner
from choir_agent.tools.registry import ToolRegistry
from choir_agent.tools.safe_open import SafeOpener
from choir_agent.tools.speech.synthesis import SpeechSynthesizer
from choir_agent.tools.tool import CallContext, Tool, ToolFailed
from choir_agent.tools.workspace import ARTIFACTS_DIR, SEND_DIR, Workspace, create_staging
from choir_agent.tools.workspace_files import WorkspaceFiles
from choir_common.redactor import Redactor
from choir_common.wire.config import (
    AgentSettings,
    Budgets,
    ModelConfig,
    TtsConfig,
    VoiceBinding,
    VoiceProfileConfig,
)
from choir_common.wire.events import ToolCall
from choir_common.wire.model import JsonObject
from tests.support.fake_web_services import KEY, fake_elevenlabs

CANARY = "outside-canary"
# Each writes to the disk and waits for it; `make nightly` goes on for longer.
SWAPPED_WRITES = int(os.environ.get("CHOIR_TEST_SWAPPED_WRITES", "300"))
UPS = ["../" * depth for depth in range(1, 9)]
ESCAPES = [
    *[f"{up}outside/secret" for up in UPS],
    *[f"in/{up}../outside/secret" for up in UPS],
    *[f"./{up}etc/passwd" for up in UPS],
    *[f"in/./{up}../etc/hostname" for up in UPS],
    "/etc/passwd",
    "//etc/passwd",
    "/./etc/passwd",
    "/proc/self/environ",
    "/proc/self/root/etc/passwd",
    "/proc/1/root/etc/passwd",
    "/dev/null",
    "/dev/zero",
    "{root}/../outside/secret",
    "{root}/in/../../outside/secret",
    "{root}x/secret",
    "{outside}/secret",
    "..",
    "../",
    "in/../..",
    "link-file",
    "link-dir/secret",
    "link-dir/../outside/secret",
    "link-up/outside/secret",
    "link-root/etc/passwd",
    "link-proc/self/environ",
    "link-chain",
    "in/link-deep",
    "link-dir/./secret",
    "in/../link-file",
    "link-self-fd/0",
    "link-dir/new-file",
    "link-dangling-out",
]
ESCAPES += [
    f"{start}{link}{rest}"
    for start in ("", "./", "in/../", "in/./../", "{root}/", "{root}/in/..//", ".//")
    for link, rest in (
        ("link-file", ""),
        ("link-chain", ""),
        ("link-dir", ""),
        ("link-dir/", "secret"),
        ("link-dir//", "./secret"),
        ("link-up/", "outside/secret"),
        ("link-up/ws/../", "outside/secret"),
        ("link-root/", "etc/passwd"),
        ("link-root/", "proc/self/environ"),
        ("link-proc/", "self/mem"),
        ("link-proc/", "self/root/etc/passwd"),
        ("link-proc/", "self/cwd/../../etc/passwd"),
        ("link-self-fd/", "1"),
        ("link-dangling-out", ""),
        ("in/link-deep", ""),
    )
]
ESCAPES += [
    *[f"{'in/' * depth}{'../' * (2 * depth + 1)}outside/secret" for depth in range(1, 9)],
    *[f"{'./' * depth}../outside/secret" for depth in range(2, 9)],
    *[f"{'/' * depth}etc/passwd" for depth in range(3, 7)],
    *[f".choirtmp/{up}../outside/secret" for up in UPS],
    *[f".choirtmp/send/{up}../../outside/secret" for up in UPS],
    "/dev/shm/x",
    "/dev/fd/0",
    "/dev/stdin",
    "/proc/self/fd/0",
    "/proc/thread-self/environ",
    "/sys/kernel/hostname",
    "/etc/shadow",
    "/root/.ssh/id_rsa",
    "/tmp/outside",
]
ESCAPES = [*dict.fromkeys(ESCAPES)]
MALFORMED = ["", "a\x00b", "\x00", "../\x00", "x" * 5000, "a/" * 3000, "é" * 2100]
ODD_BUT_INSIDE = [
    "%2e%2e/outside/secret",
    "..%2foutside",
    "..\\outside\\secret",
    "~/x",
    "...",
    "$HOME",
]
SPECIAL = ["fifo", "socket", "in", ".", "loop-a", "device"]


TTS_NAMES = [
    *[f"{up}x" for up in UPS],
    "/etc/cron.d/x",
    "a/b",
    "a\\b",
    "..",
    ".",
    "",
    ".hidden",
    "-rf",
    "a\x00b",
    "a\n",
    "x" * 65,
    "é",
    "%2e%2e%2fx",
    "link-dir/x",
    "a.ogg/../../x",
    "~",
    "$(id)",
    "*",
    "a b",
]


@dataclass(frozen=True)
class Place:
    """A workspace beside a directory that nobody may reach."""

    root: Path
    outside: Path
    workspace: Workspace

    def path(self, vector: str) -> str:
        return vector.replace("{root}", str(self.root)).replace("{outside}", str(self.outside))

    def read(self, vector: str) -> bytes:
        descriptor = self.workspace.open_file(self.workspace.canonical(self.path(vector)))
        with os.fdopen(descriptor, "rb") as file:
            return file.read()

    def write(self, vector: str) -> None:
        self.workspace.replace_file(self.workspace.canonical(self.path(vector)), b"overwritten")

    async def use(
        self, tool: Tool, registry: ToolRegistry, vector: str, **arguments: str
    ) -> JsonObject:
        """Take a call the way the arbiter does; raises ToolFailed for what it refuses."""
        given: JsonObject = {"path": self.path(vector), **arguments}
        call = ToolCall(
            call_id="call_1", tool=tool.manifest.name, arguments=orjson.dumps(given).decode()
        )
        permit = check_call(call, registry, self.workspace)
        if isinstance(permit, RefuseCall):
            raise ToolFailed(str(permit.error["code"]), str(permit.error["message"]))
        context = CallContext("call_1", "edge", permit.path)
        return (await tool.run(context, permit.arguments)).output

    def tools(self) -> list[tuple[Tool, dict[str, str]]]:
        """Return every tool that takes a path, with what else it needs."""
        children = ProgramRunner(self.root, str(self.root))
        return [
            (FsReadTool(self.workspace, WorkspaceFiles(self.workspace)), {}),
            (FsWriteTool(self.workspace), {"content": "overwritten"}),
            (FsWriteTool(self.workspace), {"content": "overwritten", "mode": "append"}),
            (FsWriteTool(self.workspace), {"content": "overwritten", "mode": "create"}),
            (FsSearchTool(self.workspace, children), {"pattern": "."}),
        ]

    def outside_is_untouched(self) -> bool:
        return [(p.name, p.read_text()) for p in self.outside.iterdir()] == [("secret", CANARY)]


@pytest.fixture(params=["openat2", "walk"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Make a workspace full of traps; once for the kernel's own way of opening, once for ours."""
    with tempfile.TemporaryDirectory(prefix="choir-t-") as name:
        top = Path(name).resolve()
        root, outside = top / "ws", top / "outside"
        (root / "in").mkdir(parents=True)
        outside.mkdir()
        (outside / "secret").write_text(CANARY)
        links = {
            "link-file": outside / "secret",
            "link-dir": outside,
            "link-up": "..",
            "link-root": "/",
            "link-proc": "/proc",
            "link-self-fd": "/proc/self/fd",
            "link-chain": "link-file",
            "link-dangling-out": outside / "new",
            "in/link-deep": "../../outside/secret",
            "loop-a": "loop-b",
            "loop-b": "loop-a",
        }
        for link, target in links.items():
            (root / link).symlink_to(target)
        os.mkfifo(root / "fifo")
        bound = socket.socket(socket.AF_UNIX)
        bound.bind(str(root / "socket"))
        with suppress(OSError):
            os.mknod(root / "device", 0o600 | 0o020000, os.makedev(1, 5))
        workspace = Workspace(root)
        if request.param == "walk":
            workspace._opener.uses_openat2 = False
        elif not workspace._opener.uses_openat2:
            pytest.skip("this kernel has no openat2")
        create_staging(workspace)
        yield Place(root, outside, workspace)
        workspace.close()
        bound.close()


def test_there_are_enough_vectors() -> None:
    paths = {*ESCAPES, *MALFORMED, *ODD_BUT_INSIDE, *SPECIAL}
    assert len(paths) >= 200
    assert len(TTS_NAMES) >= 20


@pytest.mark.parametrize("vector", ESCAPES)
def test_no_path_leads_out(place: Place, vector: str) -> None:
    for attempt in (place.read, place.write):
        with pytest.raises(ToolFailed) as caught:
            attempt(vector)
        assert caught.value.kind in ("outside_workspace", "not_a_file", "bad_path")
    assert place.outside_is_untouched()


async def test_no_tool_takes_a_path_that_leads_out(place: Place) -> None:
    for tool, arguments in place.tools():
        registry = ToolRegistry([tool])
        for vector in ESCAPES:
            with pytest.raises(ToolFailed) as caught:
                await place.use(tool, registry, vector, **arguments)
            refused = ("outside_workspace", "not_a_file", "bad_path")
            assert caught.value.kind in refused, (tool.manifest.name, vector)
    assert place.outside_is_untouched()


@pytest.mark.parametrize("vector", MALFORMED)
def test_a_malformed_path_is_a_clear_error(place: Place, vector: str) -> None:
    for attempt in (place.read, place.write):
        with pytest.raises(ToolFailed):
            attempt(vector)


@pytest.mark.parametrize("vector", ODD_BUT_INSIDE)
def test_a_path_that_only_looks_like_a_way_out_is_a_plain_name(place: Place, vector: str) -> None:
    place.write(vector)
    assert place.read(vector) == b"overwritten"
    assert place.outside_is_untouched()


@pytest.mark.parametrize("vector", SPECIAL)
def test_only_regular_files_are_opened_and_nothing_hangs(place: Place, vector: str) -> None:
    if vector == "device" and not (place.root / "device").exists():
        pytest.skip("this user may not make device nodes")
    for attempt in (place.read, place.write):
        with pytest.raises(ToolFailed):
            attempt(vector)


def test_a_symlink_put_in_place_after_the_check_is_not_followed(place: Place) -> None:
    (place.root / "in/file").write_text("inside")
    canonical = place.workspace.canonical("in/file")
    (place.root / "in").rename(place.root / "moved")
    (place.root / "in").symlink_to(place.outside)
    (place.outside / "file").write_text(CANARY)
    with pytest.raises(ToolFailed):
        place.workspace.open_file(canonical)
    with pytest.raises(ToolFailed):
        place.workspace.replace_file(canonical, b"overwritten")
    assert (place.outside / "file").read_text() == CANARY


def test_a_directory_that_is_swapped_all_the_time_never_leads_out(place: Place) -> None:
    (place.root / "real").mkdir()
    (place.root / "real/secret").write_text("inside")
    swapped, stop = place.root / "swapped", threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for target in ("real", str(place.outside)):
                draft = place.root / "draft"
                draft.unlink(missing_ok=True)
                draft.symlink_to(target)
                try:
                    draft.replace(swapped)
                except IsADirectoryError:
                    # a write that saw no link there made a directory of that name, inside
                    swapped.rename(place.root / f"made-{os.urandom(4).hex()}")

    thread = threading.Thread(target=swap)
    thread.start()
    read: set[bytes] = set()
    try:
        for _ in range(3000):
            with suppress(ToolFailed):
                read.add(place.read("swapped/secret"))
            with suppress(ToolFailed):
                place.write("swapped/secret")
    finally:
        stop.set()
        thread.join()
    assert CANARY.encode() not in read
    assert place.outside_is_untouched()


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "in/../../x", "link-file", "link-dir/secret"]
)
def test_opening_itself_refuses_ways_out(place: Place, path: str) -> None:
    descriptor = os.open(place.root, os.O_RDONLY | os.O_DIRECTORY)
    beneath = SafeOpener(descriptor)
    beneath.uses_openat2 = place.workspace._opener.uses_openat2
    with pytest.raises(OSError):
        os.close(beneath.open(path, os.O_RDONLY))
    os.close(descriptor)


def speaking(endpoint: str) -> CallContext:
    """Make the context of a call to speak."""
    profile = VoiceProfileConfig(tts="t", voice_id="voice1", output_format="opus_48000_64")
    tts = TtsConfig(model_id="m", endpoint=endpoint, secret="eleven")
    settings = AgentSettings(
        model_name="m",
        model=ModelConfig(model="m", endpoint="http://127.0.0.1:1"),
        budgets=Budgets(),
        heartbeat_interval_ms=1000,
        rate_limit_retry_ms=1,
        event_window=10,
        voice=VoiceBinding(profile=profile, tts=tts),
    )
    return CallContext("call_1", "edge", settings=settings, secrets={"voice_profile": KEY})


@pytest.mark.parametrize("name", TTS_NAMES)
async def test_no_name_of_a_recording_leads_out(place: Place, name: str) -> None:
    tool = TtsSpeakTool(SpeechSynthesizer(place.workspace, ApiClient()))
    call = ToolCall(
        call_id="c", tool=tool.manifest.name,
        arguments=orjson.dumps({"text": "x", "name": name}).decode(),
    )  # fmt: skip
    permit = check_call(call, ToolRegistry([tool]), place.workspace)
    # the schema's pattern lets one line break pass at the end, as regular expressions do
    assert isinstance(permit, RefuseCall) or name == "a\n"
    with pytest.raises(ToolFailed) as caught:
        await tool.run(speaking("http://127.0.0.1:1"), {"text": "x", "name": name})
    assert caught.value.kind == "bad_input"
    assert place.outside_is_untouched()


@pytest.mark.parametrize("swapped", [".choirtmp", SEND_DIR])
async def test_a_recording_is_not_written_through_a_link(place: Place, swapped: str) -> None:
    (place.outside / "send").mkdir()
    (place.root / swapped).rename(place.root / "moved")
    (place.root / swapped).symlink_to(place.outside)
    async with fake_elevenlabs() as service:
        with pytest.raises(ToolFailed):
            await TtsSpeakTool(SpeechSynthesizer(place.workspace, ApiClient())).run(
                speaking(service.endpoint), {"text": "x", "name": "secret"}
            )
    assert not service.asked
    assert sorted(path.name for path in place.outside.rglob("*")) == ["secret", "send"]
    (place.outside / "send").rmdir()


@pytest.mark.parametrize("kind", ["link", "fifo", "directory", "hardlink"])
async def test_a_recording_never_goes_into_what_took_its_place(place: Place, kind: str) -> None:
    taken = place.root / SEND_DIR / "n.ogg"
    match kind:
        case "link":
            taken.symlink_to(place.outside / "secret")
        case "fifo":
            os.mkfifo(taken)
        case "directory":
            taken.mkdir()
        case "hardlink":
            taken.hardlink_to(place.outside / "secret")
    async with fake_elevenlabs() as service:
        with suppress(ToolFailed):
            await TtsSpeakTool(SpeechSynthesizer(place.workspace, ApiClient())).run(
                speaking(service.endpoint), {"text": "x", "name": "n"}
            )
    assert place.outside_is_untouched()


@pytest.mark.parametrize("mode", ["overwrite", "append", "replace", "insert"])
async def test_writing_where_a_hard_link_is_leaves_the_other_name_alone(
    place: Place, mode: str
) -> None:
    (place.root / "hard").hardlink_to(place.outside / "secret")
    lines = {"start_line": 1, "end_line": 1}
    context = CallContext("c", "edge", "hard")
    given: JsonObject = {"path": "hard", "content": "overwritten", "mode": mode, **lines}
    await FsWriteTool(place.workspace).run(context, given)
    assert (place.root / "hard").read_text() != CANARY
    assert place.outside_is_untouched()


def test_hard_and_symbolic_links_swapped_all_the_time_are_never_written_through(
    place: Place,
) -> None:
    stop = threading.Event()
    artifacts = ArtifactStore(place.workspace, Redactor(), max_total_bytes=2_000)
    (place.root / "plain").write_text("inside")
    away = place.root / "away"

    def swap() -> None:
        while not stop.is_set():
            for source in ("hard", "soft", "plain"):
                draft = place.root / "draft"
                draft.unlink(missing_ok=True)
                if source == "soft":
                    draft.symlink_to(place.outside / "secret")
                elif source == "hard":
                    draft.hardlink_to(place.outside / "secret")
                else:
                    draft.write_text("inside")
                draft.replace(place.root / "target")
            with suppress(OSError):
                (place.root / ARTIFACTS_DIR).rename(away)
                (place.root / ARTIFACTS_DIR).symlink_to(place.outside)
                (place.root / ARTIFACTS_DIR).unlink()
                away.rename(place.root / ARTIFACTS_DIR)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for number in range(SWAPPED_WRITES):
            with suppress(ToolFailed):
                place.workspace.replace_file("target", b"overwritten")
            with suppress(ToolFailed):
                place.workspace.replace_file("target", b"new", must_be_new=True)
            artifacts.keep({"n": number, "x": "x" * 500})
    finally:
        stop.set()
        thread.join()
    assert place.outside_is_untouched()
