"""Choir's own transcriber: OpenAI's protocol over a model directory, and what it says without one."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from choir_agent.tools.api_client import ApiClient
from choir_agent.tools.speech.transcription import AudioTranscriber, Transcript
from choir_agent.tools.tool import ToolFailed
from choir_agent.tools.workspace import Workspace
from choir_common.http.listen import bind_tcp, serve
from choir_common.wire.attachments import ReceivedFile
from choir_common.wire.config import TranscriptionBinding, TranscriptionConfig
from choir_local.transcriber.app import make_transcriber_app
from choir_local.transcriber.recognizer import WhisperRecognizer
from tests.support.faster_whisper_stand_in import faster_whisper
from tests.support.faster_whisper_stand_in.faster_whisper import WhisperModel
from tests.support.ogg import make_speech

LONG = " ".join(["slowly"] * 200)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a stand-in for faster-whisper, whose models cannot be downloaded here."""
    monkeypatch.setitem(sys.modules, "faster_whisper", faster_whisper)
    monkeypatch.setattr(WhisperModel, "loaded", [])
    monkeypatch.setattr(WhisperModel, "parts", [])


@pytest.fixture
async def endpoint(tmp_path: Path) -> AsyncIterator[str]:
    (tmp_path / "model").mkdir()
    listener = bind_tcp("127.0.0.1", 0, "port")
    stop = asyncio.Event()
    app = make_transcriber_app(WhisperRecognizer(tmp_path / "model"))
    server = asyncio.create_task(serve(app, [listener], stop))
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    stop.set()
    await server


def install_model(root: Path) -> None:
    """Put the files of a model into its directory."""
    for name in ("model.bin", "tokenizer.json"):
        (root / "model" / name).touch()


async def transcribe(
    endpoint: str,
    root: Path,
    content: bytes,
    language: str | None = None,
    timeout_ms: int = 60_000,
) -> Transcript:
    """Transcribe a file as an agent does."""
    name = f"{len(content)}.ogg"
    (root / name).write_bytes(content)
    workspace = Workspace(root)
    config = TranscriptionConfig(
        model="own", endpoint=endpoint, language=language, timeout_ms=timeout_ms
    )
    file = ReceivedFile(name=name, kind="voice", path=name)
    try:
        return await AudioTranscriber(workspace, ApiClient()).transcribe(
            file, TranscriptionBinding(name="own", config=config), None
        )
    finally:
        workspace.close()


@pytest.mark.usefixtures("library")
async def test_an_agent_gets_the_words_and_the_model_is_loaded_once(
    endpoint: str, tmp_path: Path
) -> None:
    install_model(tmp_path)
    first, second = await asyncio.gather(
        transcribe(endpoint, tmp_path, make_speech("water the fig")),
        transcribe(endpoint, tmp_path, make_speech("water the fig"), "de"),
    )
    assert (first.text, first.transcription.language) == ("water the fig", "en")
    assert second.transcription.language == "de"
    assert first.usage[0].audio_seconds == 2.5
    assert [name for name, _ in WhisperModel.loaded] == [str(tmp_path / "model")]


@pytest.mark.usefixtures("library")
async def test_a_short_file_does_not_wait_for_a_long_one(endpoint: str, tmp_path: Path) -> None:
    install_model(tmp_path)
    async with asyncio.TaskGroup() as tasks:
        long = tasks.create_task(transcribe(endpoint, tmp_path, make_speech(LONG)))
        async with asyncio.timeout(30):
            while not WhisperModel.parts:
                await asyncio.sleep(0.001)
            await transcribe(endpoint, tmp_path, make_speech("a short one"))
        assert not long.done()
        heard = WhisperModel.parts[WhisperModel.parts.index("a") :][:5]
        assert heard == ["a", "slowly", "short", "slowly", "one"]
    assert long.result().text == LONG


@pytest.mark.usefixtures("library")
async def test_a_file_whose_client_has_gone_is_dropped(endpoint: str, tmp_path: Path) -> None:
    install_model(tmp_path)
    with pytest.raises(ToolFailed, match="did not answer within 1 s"):
        await transcribe(endpoint, tmp_path, make_speech(LONG), timeout_ms=1_000)
    heard = len(WhisperModel.parts)
    assert (await transcribe(endpoint, tmp_path, make_speech("and now"))).text == "and now"
    assert len(WhisperModel.parts) < heard + 5


@pytest.mark.usefixtures("library")
async def test_a_full_transcriber_asks_for_another_try(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_model(tmp_path)
    monkeypatch.setattr("choir_local.transcriber.app.MAX_REQUESTS", 0)
    with pytest.raises(ToolFailed, match=r"failed \(503\)"):
        await transcribe(endpoint, tmp_path, make_speech("x"), timeout_ms=1_000)


@pytest.mark.usefixtures("library")
async def test_an_empty_directory_and_a_broken_file_are_named(
    endpoint: str, tmp_path: Path
) -> None:
    (tmp_path / "model" / "model.bin").touch()
    with pytest.raises(ToolFailed, match=r"is no faster-whisper model: tokenizer\.json is missing"):
        await transcribe(endpoint, tmp_path, make_speech("x"))
    install_model(tmp_path)
    with pytest.raises(ToolFailed, match="This is not audio that can be read"):
        await transcribe(endpoint, tmp_path, b"no audio")


async def test_without_the_library_the_command_that_installs_it_is_named(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faster_whisper", None)
    with pytest.raises(ToolFailed, match=r"pip install 'choir-local\[transcription\]'"):
        await transcribe(endpoint, tmp_path, make_speech("x"))


async def test_the_program_says_where_it_listens_and_ends_on_sigterm(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "choir_local.transcriber"),
        *("--model-dir", str(tmp_path), "--port", "0"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        line = (await process.stdout.readline()).decode()
        assert line.startswith("transcriber on http://127.0.0.1:")
        with pytest.raises(ToolFailed):
            await transcribe(line.split()[-1], tmp_path, make_speech("x"))
        process.terminate()
        assert await process.wait() == 0
