"""`/embeddings`, `/audio/transcriptions` and the list of models, with the official SDK."""

import base64
import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openai
import pytest

from choir_common.bus import subjects
from choir_common.bus.client import Endpoint
from choir_common.errors import InvalidRequest, NotFound
from choir_common.http.client import make_client
from choir_common.speech.transcription import MAX_AUDIO_BYTES
from choir_common.wire.embeddings import MAX_EMBEDDED_TEXTS, EmbeddingResult, EmbedTexts
from choir_common.wire.memory_search import MemoryStatus
from choir_common.wire.messages import Empty
from choir_control.settings import ControlSecrets
from tests.service.control.openai_world import OpenAIWorld, openai_world
from tests.service.control.world import World
from tests.support.fake_speech import FakeSpeech, fake_speech, openai_error
from tests.support.fake_web_services import KEY
from tests.support.ogg import make_speech

MODEL = "vendor/small-embedder"
OPEN_WEBUI = json.loads((Path(__file__).parent / "open_webui_requests.json").read_text())[
    "embeddings"
]
FORM = "/openai/v1/audio/transcriptions"


@dataclass
class MemoryStandIn:
    """The memory service's embedding model, which counts words and has vectors of two numbers."""

    batches: list[int] = field(default_factory=list)
    before_answer: Callable[[], Awaitable[object]] | None = None
    """What happens elsewhere while the model works."""

    async def embed(self, request: EmbedTexts) -> EmbeddingResult:
        if request.model != MODEL:
            raise NotFound(f"model: the embedding model here is {MODEL!r}.")
        if request.dimensions not in (None, 2):
            raise InvalidRequest("dimensions: the vectors have 2 numbers here.")
        self.batches.append(len(request.texts))
        if self.before_answer is not None:
            await self.before_answer()
        vectors = [struct.pack("<2f", len(it), it.count("e")) for it in request.texts]
        return EmbeddingResult(
            vectors=tuple(base64.b64encode(it).decode() for it in vectors),
            tokens=sum(len(it.split()) for it in request.texts),
        )

    async def status(self, _: Empty) -> MemoryStatus:
        return MemoryStatus(embedder=MODEL, dimensions=2, queued=0, failed=0)

    def endpoints(self) -> tuple[Endpoint, ...]:
        return (
            Endpoint(subjects.embed_texts(), EmbedTexts, self.embed),
            Endpoint(subjects.memory_status(), Empty, self.status),
        )


@dataclass
class Models:
    """A choird with a client of all scopes, and what its models are."""

    api: OpenAIWorld
    memory: MemoryStandIn
    speech: FakeSpeech
    token: str

    async def ledger(self) -> list[dict[str, Any]]:
        query = "SELECT kind, name, agent_id, audio_seconds, cost_usd FROM choir_control.ledger"
        return [dict(row) for row in await self.api.world.database.fetch(query)]


def configure(world: World, speech: FakeSpeech) -> None:
    """Add the transcription and embedding models, and a budget that pays for one minute of audio."""
    path = world.settings.config_file
    config = json.loads(path.read_text())
    entry = {"model": "whisper-1", "endpoint": speech.endpoint, "secret": "speech-key"}
    dear = {**entry, "model": "dear", "prices": {"audio_minute": 1000}}
    config["transcription"] = {
        "whisper": {**entry, "max_seconds": 60, "prices": {"audio_minute": 0.6}},
        "dear": dear,
    }
    config["embedding"] = {
        "model": MODEL,
        "dimensions": 2,
        "endpoint": "http://127.0.0.1:1/v1",
        "prices": {"input": 1},
    }
    config["models"]["default"]["prices"] = {"input": 0, "output": 0}
    config["budgets"] = {"total_usd_per_day": 0.7}
    path.write_text(json.dumps(config))
    world.secrets = ControlSecrets(
        **{**world.secrets.model_dump(), "secrets": {**world.secrets.secrets, "speech-key": KEY}}
    )


@pytest.fixture
async def models(stopped: World) -> AsyncIterator[Models]:
    memory = MemoryStandIn()
    async with (
        fake_speech() as speech,
        stopped.bus.serve("choir-memory", "1.0.0", *memory.endpoints()),
    ):
        configure(stopped, speech)
        async with openai_world(stopped) as api:
            scopes = ["embeddings", "transcriptions"]
            token = await api.add_client("tools", scopes=scopes)
            yield Models(api, memory, speech, token)


async def test_the_sdk_embeds_texts_in_batches_within_limits_and_budget(models: Models) -> None:
    chat_only = await models.api.add_client("chat")
    async with models.api.sdk(models.token) as client:
        listed = [it.id async for it in await client.models.list()]
        assert listed == [MODEL, "dear", "whisper"], "no agents without the scope chat"
        assert (await client.models.retrieve(MODEL)).owned_by == "choir"

        one = await client.embeddings.create(model=MODEL, input="three words here")
        assert one.data[0].embedding == [16.0, 4.0], "the SDK asks for base64"
        assert one.usage.prompt_tokens == 3
        texts = [f"text {number}" for number in range(MAX_EMBEDDED_TEXTS + 1)]
        many = await client.embeddings.create(model=MODEL, input=texts, encoding_format="float")
        assert [it.index for it in many.data] == list(range(len(texts)))
        assert many.data[-1].embedding == [7.0, 1.0]
        assert models.memory.batches == [1, MAX_EMBEDDED_TEXTS, 1]

        create: Any = client.embeddings.create
        for wrong, param in (
            ({"input": "x", "dimensions": 256}, "dimensions"),
            ({"input": [[1, 2, 3]]}, "input"),
            ({"input": []}, "input"),
            ({"input": ["x", ""]}, "input[1]"),
            ({"input": ["x"] * 2049}, "input"),
        ):
            with pytest.raises(openai.BadRequestError) as refused:
                await create(model=MODEL, **wrong)
            assert refused.value.param == param, wrong
        with pytest.raises(openai.NotFoundError) as other:
            await create(model="text-embedding-3-small", input="x")
        assert other.value.code == "model_not_found"
        with pytest.raises(openai.RateLimitError) as expensive:
            await create(model=MODEL, input=["x" * 100_000] * 20)
        assert expensive.value.code == "insufficient_quota"
        assert expensive.value.response.headers["x-should-retry"] == "false"
        assert len(models.memory.batches) == 3

        models.memory.before_answer = lambda: models.api.world.delete("/v1/clients/tools")
        with pytest.raises(openai.AuthenticationError):
            await client.embeddings.create(model=MODEL, input=["x"] * 3 * MAX_EMBEDDED_TEXTS)
        assert len(models.memory.batches) == 4, "a revoked client embeds no further batch"
    async with models.api.sdk(chat_only) as client:
        assert MODEL not in [it.id async for it in await client.models.list()]
        with pytest.raises(openai.PermissionDeniedError, match="--scope embeddings"):
            await client.embeddings.create(model=MODEL, input="x")
        with pytest.raises(openai.PermissionDeniedError, match="--scope transcriptions"):
            await client.audio.transcriptions.create(model="whisper", file=("a.ogg", b"x"))


async def test_the_sdk_transcribes_a_file_and_its_cost_is_in_the_ledger(models: Models) -> None:
    file = ("secret name.ogg", make_speech("The tide is high.", seconds=30), "audio/ogg")
    async with models.api.sdk(models.token) as client:
        create = client.audio.transcriptions.create
        done = await create(model="whisper-1", file=file, language="de")
        assert done.text == "The tide is high."
        [heard] = models.speech.heard
        assert heard.file_name == "voice.ogg", "the name stays here"
        assert heard.fields == {
            "model": "whisper-1",
            "response_format": "json",
            "language": "de",
        }
        [entry] = await models.ledger()
        assert (entry["kind"], entry["name"], entry["agent_id"]) == (
            "transcription",
            "whisper",
            None,
        )
        assert float(entry["cost_usd"]) == pytest.approx(0.6 * 3 / 60), "as the endpoint counts"

        plain: Any = await create(model="whisper", file=file, response_format="text")
        assert plain.strip() == "The tide is high."
        with pytest.raises(openai.RateLimitError) as dear:
            await create(model="dear", file=file)
        assert dear.value.code == "insufficient_quota"
        with pytest.raises(openai.NotFoundError):
            await create(model="main", file=file)
        long = ("a.ogg", make_speech("x", seconds=61))
        with pytest.raises(openai.APIStatusError, match="max_seconds") as too_long:
            await create(model="whisper", file=long)
        assert too_long.value.status_code == 413
        for wrong, param in (
            ({"file": ("a.ogg", b"")}, "file"),
            ({"file": file, "response_format": "diarized_json"}, "response_format"),
            ({"file": file, "language": "klingon"}, "language"),
        ):
            with pytest.raises(openai.BadRequestError) as refused:
                await create(model="whisper", **wrong)  # type: ignore[call-overload]
            assert refused.value.param == param, wrong
        models.speech.queued.append(openai_error(400, "invalid_request_error", f"key {KEY}"))
        with pytest.raises(openai.BadRequestError) as rejected:
            await create(model="whisper", file=file)
        assert KEY not in str(rejected.value)
    held = await models.api.world.database.fetchval(
        "SELECT count(*) FROM choir_control.budget_reservations"
    )
    assert held == 0, "a call that was not billed leaves no reservation"


async def test_the_sdk_gets_times_and_subtitles_or_a_clear_error(models: Models) -> None:
    file = ("a.ogg", make_speech("The tide is high."), "audio/ogg")
    async with models.api.sdk(models.token) as client:
        create: Any = client.audio.transcriptions.create
        both = ["word", "segment"]
        full = await create(
            model="whisper",
            file=file,
            response_format="verbose_json",
            timestamp_granularities=both,
        )
        assert (full.text, full.language, full.duration) == (
            "The tide is high.",
            "english",
            2.5,
        ), "the file itself says how long it is"
        assert [(it.word, it.end) for it in full.words][:2] == [("The", 1.0), ("tide", 2.0)]
        assert [(it.start, it.end) for it in full.segments] == [(0.0, 4.0)]
        srt = await create(model="whisper", file=file, response_format="srt")
        assert srt == "1\n00:00:00,000 --> 00:00:04,000\nThe tide is high.\n"
        vtt = await create(model="whisper", file=file, response_format="vtt")
        assert vtt == "WEBVTT\n\n00:00:00.000 --> 00:00:04.000\nThe tide is high.\n"
        models.speech.queued.append(openai_error(400, "invalid_request_error", "not supported"))
        with pytest.raises(openai.BadRequestError, match="json. and .text. work") as refused:
            await create(model="whisper", file=file, response_format="vtt")
        assert refused.value.param == "response_format"


async def test_open_webui_embeds_documents_and_transcribes_speech(models: Models) -> None:
    headers = {"Authorization": f"Bearer {models.token}", "X-OpenWebUI-User-Id": "u-1"}
    async with make_client(models.api.world.tcp, timeout_s=120) as client:
        done = await client.post("/openai/v1/embeddings", json=OPEN_WEBUI, headers=headers)
        assert [it["embedding"] for it in done.json()["data"]] == [[17.0, 0.0], [18.0, 1.0]]
        form = {"data": {"model": "whisper-1"}, "files": {"file": ("u-1.mp3", make_speech("hi"))}}
        heard = await client.post(FORM, headers=headers, **form)  # type: ignore[arg-type]
        assert heard.json()["text"] == "hi"


async def test_forms_that_are_no_audio_request_are_refused(models: Models) -> None:
    headers = {"Authorization": f"Bearer {models.token}"}
    audio = ("a.ogg", make_speech("x"), "audio/ogg")
    async with make_client(models.api.world.tcp, timeout_s=120) as client:
        for form in (
            {"json": {"model": "whisper"}},
            {"data": {"model": "whisper"}, "files": {"other": audio}},
            {"data": {"model": "whisper"}, "files": [("file", audio), ("file", audio)]},
            {"data": {"model": "whisper", "prompt": "x" * 20_000}, "files": {"file": audio}},
            {"data": {f"field{it}": "x" for it in range(30)}, "files": {"file": audio}},
            {"files": {"file": audio, "model": ("m", b"whisper")}},
            {"content": b"--x", "headers": {"Content-Type": "multipart/form-data; boundary=x"}},
            {"content": b"", "headers": {"Content-Type": "multipart/form-data"}},
        ):
            more = dict(form)
            own = {**headers, **more.pop("headers", {})}  # type: ignore[dict-item]
            refused = await client.post(FORM, headers=own, **more)  # type: ignore[arg-type]
            assert refused.status_code == 400, form.keys()
            assert "error" in refused.json()
        content = b"0" * (MAX_AUDIO_BYTES + 1)
        form = {"data": {"model": "whisper"}, "files": {"file": ("a.wav", content)}}
        large = await client.post(FORM, headers=headers, **form)  # type: ignore[arg-type]
        assert large.status_code == 413
    assert models.speech.heard == []
