"""What `doctor` finds out about a model, by one request to a provider that answers over HTTP."""

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from choir_common.wire.browser import NO_SANDBOX, NOT_CONFINED
from choir_common.wire.config import ModelConfig
from choir_common.wire.config_api import ConfigView
from choir_common.wire.operator import HOST_LACKS, ComponentStatus, SystemStatus
from choir_local.home import Home
from choir_local.settings import LocalSettings
from choir_local.stack_state import lock_home
from choir_models.model_check import check_model
from choir_testing.providers.anthropic import AnthropicProvider
from choir_testing.providers.gemini import Gemini
from choir_testing.providers.local_servers import fake_vllm, run_local_server
from choir_testing.providers.ollama import FakeOllama
from choir_testing.providers.openai_responses import OpenAiResponses
from choir_testing.providers.provider import FakeProvider
from choir_testing.providers.server import run_provider
from choirctl.start.health import Finding, Installation, RunningChoir
from choirctl.start.health_checks import SHARED_USER, run_checks
from choirctl.start.state_directory import initial_config

KEY = "sk-a-key-nobody-sees"
ANSWER = {"choices": [{"message": {"role": "assistant", "content": "ok"}}]}


@dataclass
class Provider:
    """A provider, what it says, and what it was asked."""

    url: str = ""
    status: int = 200
    answer: dict[str, Any] = field(default_factory=lambda: ANSWER)
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)

    def model(self, **more: Any) -> ModelConfig:
        return ModelConfig(model="m", endpoint=f"{self.url}/v1", **more)


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # it does not tell what it serves
            self.say(404, {"error": "not found"})

        def do_POST(self) -> None:
            assert self.path == "/v1/chat/completions"
            made.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            made.keys.append(self.headers.get("Authorization"))
            self.say(made.status, made.answer)

        def say(self, status: int, body: dict[str, Any]) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield made
    server.shutdown()
    server.server_close()


async def test_a_good_provider_is_asked_once_with_a_tool_and_the_key(provider: Provider) -> None:
    said = await check_model(provider.model(secret="k"), KEY)
    assert said.outcome == "ok" and "supports tools" in said.detail
    (asked,) = provider.asked
    assert asked["model"] == "m" and asked["tools"] and provider.keys == [f"Bearer {KEY}"]


@pytest.mark.parametrize(
    ("status", "mend"),
    [(401, "choirctl secret set k"), (402, "no credit"), (404, "no model of that name")],
)
async def test_a_refusal_is_told_with_what_mends_it_and_without_the_key(
    provider: Provider, status: int, mend: str
) -> None:
    provider.status, provider.answer = status, {"error": {"message": f"bad {KEY}\x1b"}}
    said = await check_model(provider.model(secret="k"), KEY)
    assert said.outcome == "fail" and mend in said.detail
    # the text of a refused key may quote a part of it
    assert ("bad" in said.detail) is (status != 401)
    assert KEY not in said.detail


@pytest.mark.parametrize("kind", [AnthropicProvider, Gemini, OpenAiResponses])
async def test_a_model_of_another_api_is_asked_in_its_own_format(kind: type[FakeProvider]) -> None:
    async with run_provider(kind()) as provider:
        for version in ("", "/v1"):
            settings = provider.settings(endpoint=provider.origin + (provider.base_path or version))
            said = await check_model(settings, provider.key)
            assert said.outcome == "ok" and provider.refusals == []
        said = await check_model(settings, "sk-another-key")
        assert said.outcome == "fail" and "choirctl secret set provider_key" in said.detail
        assert "another-key" not in said.detail


async def test_a_server_that_is_no_model_or_is_away_fails(provider: Provider) -> None:
    provider.answer = {"hello": "there"}
    assert (await check_model(provider.model(), None)).outcome == "fail"
    away = ModelConfig(model="m", endpoint="http://127.0.0.1:9/v1")
    assert "does not answer" in (await check_model(away, None)).detail


@pytest.mark.parametrize(
    ("length", "outcome", "words"),
    [
        (4_096, "fail", "agents need 8,192. For more: `OLLAMA_CONTEXT_LENGTH=32768 ollama serve`"),
        (8_192, "warn", "short instructions and fewer tools. For more: `OLLAMA_CONTEXT"),
        (20_000, "warn", "its context has only 20,000 tokens. For more: `OLLAMA_CONTEXT"),
        (65_536, "ok", "context 65,536 tokens, reads pictures"),
    ],
)
async def test_an_ollama_with_a_short_context_is_warned_of(
    length: int, outcome: str, words: str
) -> None:
    async with run_provider(FakeOllama(model="m:latest")) as ollama:
        ollama.max_context_length = length
        ollama.context_length = length
        said = await check_model(ollama.settings(model="m", secret=None), None)
    assert said.outcome == outcome and words in said.detail


async def test_a_server_with_a_short_context_is_told_with_its_own_command() -> None:
    async with run_local_server(fake_vllm("m", longest=8_192)) as server:
        model = ModelConfig(provider="vllm", model="m", endpoint=f"{server.address}/v1")
        said = await check_model(model, None)
    assert said.outcome == "warn" and "`vllm serve m --max-model-len 32768" in said.detail


async def test_ollama_over_the_compatible_api_is_advised_to_use_its_own(provider: Provider) -> None:
    said = await check_model(provider.model(provider="ollama"), None)
    assert said.outcome == "warn" and "set the model's `api` to `ollama`" in said.detail


async def test_a_model_that_is_not_downloaded_is_told_with_the_command() -> None:
    async with run_provider(FakeOllama(model="m:latest")) as ollama:
        said = await check_model(ollama.settings(model="other", secret=None), None)
    assert said.outcome == "fail" and "ollama pull other" in said.detail


def running_with(model: ModelConfig, *parts: ComponentStatus) -> RunningChoir:
    """Return what a running Choir says of itself that thinks with this model."""
    status = SystemStatus(
        ready=all(part.ok for part in parts),
        version="1",
        config_version=1,
        home="/x",
        model=model.model,
        parts=parts,
        agents=(),
    )
    config = {"models": {"default": model.model_dump(mode="json")}}
    view = ConfigView.model_construct(
        version=1, source="config.json", config=config, applied_at=datetime.now(UTC)
    )
    return RunningChoir(status, view)


async def findings(
    home: Path, running: RunningChoir | None, settings: LocalSettings | None = None
) -> dict[str, Finding]:
    found = await run_checks(
        Installation(Home(home), settings or LocalSettings(home=home), running)
    )
    return {finding.id: finding for finding in found}


async def test_the_model_of_the_running_choir_is_looked_at_not_that_of_the_shell(
    provider: Provider, tmp_path: Path
) -> None:
    (tmp_path / "secrets.json").write_text(json.dumps({"openai-key": KEY}))
    (tmp_path / "secrets.json").chmod(0o600)
    found = await findings(tmp_path, running_with(provider.model(secret="openai-key")))
    assert found["model"].outcome == "ok" and provider.keys == [f"Bearer {KEY}"]
    (tmp_path / "secrets.json").write_text("{}")
    found = await findings(tmp_path, running_with(provider.model(secret="openai-key")))
    assert found["model"].outcome == "warn"
    assert "choirctl secret set openai-key" in found["model"].detail


async def test_where_nothing_runs_the_model_of_the_next_start_is_asked(
    provider: Provider, tmp_path: Path
) -> None:
    provider.status, provider.answer = 401, {"error": {"message": "bad key"}}
    settings = LocalSettings(
        home=tmp_path,
        model_source="openai",
        openai_api_key=SecretStr(KEY),
        openai_base_url=f"{provider.url}/v1",
    )
    found = await findings(tmp_path, None, settings)
    assert found["model"].outcome == "fail" and "refused the API key" in found["model"].detail
    assert provider.keys == [f"Bearer {KEY}"]
    config = json.loads(initial_config(tmp_path))
    config["models"] = {"default": provider.model(secret="k").model_dump(mode="json")}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "secrets.json").write_text(json.dumps({"k": "sk-kept"}))
    found = await findings(tmp_path, None, settings)
    assert found["model"].outcome == "fail" and provider.keys[1:] == ["Bearer sk-kept"]


async def test_a_choir_in_containers_needs_nothing_of_this_machine(
    provider: Provider, tmp_path: Path
) -> None:
    parts = (ComponentStatus(name="postgres", ok=True, detail=""),)
    found = await findings(tmp_path, running_with(provider.model(), *parts))
    assert "in containers" in found["running"].detail
    assert {found[name].detail for name in ("port", "postgres", "nats")} == {
        "part of the container image"
    }


async def test_a_part_that_is_down_is_a_failure(provider: Provider, tmp_path: Path) -> None:
    part = ComponentStatus(name="memory", ok=False, detail="no response within 5 s")
    found = await findings(tmp_path, running_with(provider.model(), part))
    assert found["running"].outcome == "fail" and "memory" in found["running"].detail


async def test_entries_without_a_price_are_named(provider: Provider, tmp_path: Path) -> None:
    running = running_with(provider.model(secret="k"))
    assert (await findings(tmp_path, running))["prices"].outcome == "ok"
    assert (await findings(tmp_path, None))["prices"].outcome == "ok"
    unpriced = ("models.own", "transcription.ears", "tts.loud")
    status = running.status.model_copy(update={"unpriced": unpriced})
    found = (await findings(tmp_path, RunningChoir(status, running.config)))["prices"]
    assert found.outcome == "warn"
    assert ", ".join(unpriced) in found.detail and "`models.own.prices`" in found.detail


async def test_workspaces_over_a_limit_are_named(provider: Provider, tmp_path: Path) -> None:
    running = running_with(provider.model())
    assert (await findings(tmp_path, running))["workspaces"].outcome == "ok"
    full = ("main has 3 MB (limit: 1 MB)",)
    status = running.status.model_copy(update={"full_workspaces": full})
    found = (await findings(tmp_path, RunningChoir(status, running.config)))["workspaces"]
    assert found.outcome == "warn" and full[0] in found.detail


@pytest.mark.parametrize(
    ("detail", "outcome"), [("running", "ok"), (f"running; {NO_SANDBOX}", "warn")]
)
async def test_a_chromium_without_its_own_sandbox_is_a_warning(
    provider: Provider, tmp_path: Path, detail: str, outcome: str
) -> None:
    browser = ComponentStatus(name="browser", ok=True, detail=detail)
    found = (await findings(tmp_path, running_with(provider.model(), browser)))["chromium-sandbox"]
    assert (found.outcome, NO_SANDBOX in found.detail) == (outcome, outcome == "warn")


async def test_an_egress_proxy_that_is_off_is_a_warning(provider: Provider, tmp_path: Path) -> None:
    for detail, outcome in (("", "ok"), ("off: agents hold their keys themselves", "warn")):
        egress = ComponentStatus(name="egress", ok=True, detail=detail)
        found = (await findings(tmp_path, running_with(provider.model(), egress)))["confinement"]
        assert found.outcome == outcome
        assert detail in found.detail


@pytest.mark.parametrize(
    ("detail", "outcome"), [("idle", "ok"), (f"idle; {NOT_CONFINED}: Landlock", "warn")]
)
async def test_a_browser_service_that_is_not_confined_is_a_warning(
    provider: Provider, tmp_path: Path, detail: str, outcome: str
) -> None:
    browser = ComponentStatus(name="browser", ok=True, detail=detail)
    found = (await findings(tmp_path, running_with(provider.model(), browser)))["confinement"]
    assert (found.outcome, "Landlock" in found.detail) == (outcome, outcome == "warn")


@pytest.mark.parametrize(
    ("detail", "outcome"),
    [
        ("tool calls are limited by cgroups", "ok"),
        (f"{HOST_LACKS}: PID namespaces; tool calls are limited by cgroups", "warn"),
    ],
)
async def test_a_host_that_lacks_walls_around_agents_is_a_warning(
    provider: Provider, tmp_path: Path, detail: str, outcome: str
) -> None:
    runtime = ComponentStatus(name="runtime", ok=True, detail=detail)
    found = (await findings(tmp_path, running_with(provider.model(), runtime)))["confinement"]
    assert found.outcome == outcome and detail in found.detail
    assert ("Use the docker runtime" in found.detail) == (outcome == "warn")


@pytest.mark.skipif(os.geteuid() != 0, reason="LOUD: only root can change the owner of a home")
async def test_a_home_of_a_plain_user_is_said_to_share_its_user_with_agents(
    provider: Provider, tmp_path: Path
) -> None:
    running = running_with(provider.model())
    home = Home(tmp_path)
    home.make()
    with lock_home(home):
        assert SHARED_USER not in (await findings(tmp_path, running))["confinement"].detail
        os.chown(tmp_path, 1000, 1000)
        found = (await findings(tmp_path, running))["confinement"]
    assert found.outcome == "ok" and SHARED_USER in found.detail
