"""The transcriber as a child of the stack: from config.json to the command that serves the model."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from choir_common.wire.config import TranscriptionConfig
from choir_local.config_values import own_transcription
from choir_local.services import TranscriberProgram

REPOSITORY = Path(__file__).parents[3]
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


def test_the_container_serves_what_its_file_tells_to_configure() -> None:
    path = REPOSITORY / "deploy" / "docker" / "transcriber.yml"
    service = yaml.safe_load(path.read_text())["services"]["transcriber"]
    example = re.search(r'"own": (\{.*?\})', path.read_text())
    assert example is not None
    entry = TranscriptionConfig.model_validate_json(example[1])
    stages = (REPOSITORY / "deploy" / "docker" / "Dockerfile").read_text().split("\nFROM ")
    (stage,) = (it for it in stages if it.startswith(f"runtime AS {service['build']['target']}\n"))
    command = json.loads(stage.partition("\nCMD ")[2])
    options = dict(zip(command[4::2], command[5::2], strict=True))
    (mount,) = service["volumes"]
    assert entry.endpoint == f"http://transcriber:{options['--port']}/v1"
    assert entry.model_dir is None
    assert (options["--model-dir"], options["--host"]) == (mount["target"], "0.0.0.0")
    assert mount["read_only"] is True and service["networks"] == ["agents"]
    assert options["--port"] in service["healthcheck"]["test"]
    assert command[0] == service["healthcheck"]["test"][1]
