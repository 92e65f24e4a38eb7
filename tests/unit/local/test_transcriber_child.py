"""The transcriber as a child of the stack: from config.json to the command that serves the model."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from choir_common.wire.config import TranscriptionConfig
from choir_local.config_values import own_transcription
from choir_local.services import TranscriberProgram

EARS = {"model": "small", "endpoint": "http://127.0.0.1:9405/v1"}


def write_config(home: Path, **transcription: object) -> Path:
    """Write a config.json with these entries."""
    path = home / "config.json"
    config = {"agents": {}, "workspaces": {}, "transcription": transcription}
    path.write_text(json.dumps(config))
    return path


def test_only_an_entry_with_a_directory_is_served(tmp_path: Path) -> None:
    assert own_transcription(tmp_path / "config.json") is None
    assert own_transcription(write_config(tmp_path, remote=EARS)) is None
    own = {**EARS, "model_dir": "/srv/whisper"}
    entry = own_transcription(write_config(tmp_path, remote=EARS, own=own))
    assert entry is not None and entry.model_dir == "/srv/whisper"


@pytest.mark.parametrize(
    ("endpoint", "host", "port"),
    [("http://127.0.0.1:9405/v1", "127.0.0.1", "9405"), ("http://ears/v1/", "ears", "80")],
)
async def test_it_listens_where_agents_look_for_it(endpoint: str, host: str, port: str) -> None:
    entry = TranscriptionConfig(model="small", endpoint=endpoint, model_dir="~/whisper")
    program = TranscriberProgram(SimpleNamespace(transcription=entry))  # type: ignore[arg-type]
    command = await program.prepare_command()
    assert list(command.argv)[:4] == [sys.executable, "-P", "-m", "choir_local.transcriber"]
    rest = list(command.argv)[4:]
    assert rest == ["--model-dir", "~/whisper", "--host", host, "--port", port]
    assert program.endpoint == endpoint.partition("/v1")[0]
