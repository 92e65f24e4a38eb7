"""PDFs of users go as they are to models that read them, within limits; other models get the text."""

import base64
import json
from pathlib import Path

import pytest

from choir_agent.models import picture_model
from choir_agent.models.picture_model import max_pdf_pages
from choir_agent.working_memory.token_estimator import PDF_PAGE_SIZE, prompt_size
from choir_common.wire.attachments import ReceivedFile
from choir_common.wire.config import ModelConfig
from choir_common.wire.events import AttachmentsRead
from choir_models.abilities import reads_pdfs
from choir_models.model import Prompt
from choir_models.pictures import fill_pdfs, find_pdfs, pdf_part, picture_message
from choir_testing.providers.anthropic import AnthropicProvider
from choir_testing.providers.gemini import Gemini
from choir_testing.providers.ollama import FakeOllama
from choir_testing.providers.openai import OpenAi
from choir_testing.providers.openai_responses import OpenAiResponses
from choir_testing.providers.provider import SECRET, ErrorFault, FakeProvider, RecordedRequest
from choir_testing.providers.server import run_provider
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.running_agent import running_agent
from tests.service.memory.documents import write_pdf

FILE = ReceivedFile(
    name='my "report".pdf', kind="document", mime="application/pdf", path="in/report.pdf"
)
BOTH = ("text", "pdf")


async def send_pdf(
    provider: FakeProvider, *pages: str, **changes: object
) -> tuple[bytes, list[RecordedRequest], ControlStandIn]:
    """Send a PDF and then a further message; return the file, the requests for replies, and control."""
    async with run_provider(provider), run_control(provider.endpoint) as control:
        path: Path = control.workspace / FILE.path
        path.parent.mkdir(parents=True, exist_ok=True)
        write_pdf(path, *(pages or ("Green tea costs 7 euros.",)))
        control.bound = {"model": provider.settings(**changes)}
        control.secrets = {SECRET: provider.key}
        async with running_agent(control):
            await control.say("What does it cost?", attachments=(FILE,))
            await control.replied()
            await control.say("Sure?", "inb_2")
            await control.replied(2)
        return path.read_bytes(), provider.requests, control


def has_pdf(request: RecordedRequest, content: bytes) -> bool:
    return base64.b64encode(content) in request.raw


@pytest.mark.parametrize("kind", [AnthropicProvider, Gemini, OpenAiResponses, OpenAi])
async def test_a_model_that_reads_pdfs_gets_the_file_in_each_prompt_and_not_its_text(
    kind: type[FakeProvider],
) -> None:
    provider = kind()
    content, requests, _ = await send_pdf(provider, input=BOTH)
    assert provider.refusals == [] and len(requests) == 2
    for request in requests:
        assert has_pdf(request, content) and b"Green tea costs" not in request.raw
        assert b"choir-pdf" not in request.raw


@pytest.mark.parametrize("kind", [AnthropicProvider, Gemini, OpenAiResponses, OpenAi, FakeOllama])
async def test_a_model_that_reads_no_pdfs_gets_the_text(kind: type[FakeProvider]) -> None:
    provider = kind()
    content, requests, _ = await send_pdf(provider, input=("text",), context_window=32_768)
    assert provider.refusals == []
    for request in requests:
        assert b"Green tea costs" in request.raw and not has_pdf(request, content)


@pytest.mark.parametrize(("pages", "limit"), [(3, "MAX_PDF_PAGES"), (1, "MAX_PDF_BYTES")])
async def test_a_pdf_that_is_too_long_or_too_large_is_text(
    pages: int, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"choir_agent.lanes.attachment_reader.{limit}", 2)
    provider = AnthropicProvider()
    content, requests, control = await send_pdf(
        provider, *["Green tea costs 7."] * pages, input=BOTH
    )
    assert b"Green tea costs" in requests[0].raw and not has_pdf(requests[0], content)
    (read,) = [p for p in control.payloads() if isinstance(p, AttachmentsRead)]
    assert read.texts[0].pages == 0


async def test_a_provider_that_refuses_pdfs_gets_the_text_from_then_on() -> None:
    provider = OpenAi()
    provider.script(ErrorFault("invalid", "Invalid value: 'file'. PDF input is not supported."))
    content, requests, _ = await send_pdf(provider, input=BOTH)
    assert [has_pdf(request, content) for request in requests] == [True, False, False]
    assert b"Green tea costs" in requests[2].raw


async def test_a_scan_without_text_is_read_by_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = AnthropicProvider()
    content, requests, control = await send_pdf(provider, " ", input=BOTH)
    assert has_pdf(requests[0], content) and b"contains no text" not in requests[0].raw
    (read,) = [p for p in control.payloads() if isinstance(p, AttachmentsRead)]
    assert (read.texts[0].pages, read.texts[0].text) == (1, "")


def test_older_pdfs_are_named_only_and_all_count() -> None:
    parts = [pdf_part('a "b".pdf', f"in/{number} #1.pdf", 3) for number in range(2)]
    message = picture_message({"role": "user"}, "see", (), parts)
    assert find_pdfs([message]) == ["in/0 #1.pdf", "in/1 #1.pdf"]
    assert prompt_size(Prompt((message,))) > 6 * PDF_PAGE_SIZE
    assert prompt_size(Prompt((message,))) < 6 * PDF_PAGE_SIZE + 1_000
    (filled,) = fill_pdfs([message], {"in/0 #1.pdf": "[Choir] gone", "in/1 #1.pdf": b"data:x"})
    assert b'{"type":"text","text":"[Choir] gone"}' in filled
    assert rb'"filename":"a \"b\".pdf","file_data":"data:x"' in filled


@pytest.mark.parametrize(
    ("changes", "reads"),
    [
        ({"api": "anthropic", "model": "claude-sonnet-5"}, True),
        ({"api": "gemini", "model": "gemini-3-pro"}, True),
        ({"api": "openai-responses", "model": "gpt-5-mini"}, True),
        ({"api": "openai-responses", "model": "own-model"}, False),
        ({"model": "gpt-5-mini"}, False),
        ({"model": "gpt-5-mini", "input": ("text", "image", "pdf")}, True),
        ({"api": "anthropic", "model": "claude-sonnet-5", "input": ("text",)}, False),
        ({"api": "ollama", "model": "m", "input": ("text", "pdf")}, False),
    ],
)
def test_what_a_model_reads_is_declared_or_known(changes: dict[str, object], reads: bool) -> None:
    model = ModelConfig.model_validate_json(json.dumps(changes))
    assert reads_pdfs(model) is reads
    assert max_pdf_pages(model) == (12 if reads else 0)
    small = model.model_copy(update={"context_window": 8_192})
    assert max_pdf_pages(small) == 0
    large = model.model_copy(update={"context_window": 1_000_000})
    assert max_pdf_pages(large) == (picture_model.MAX_PDF_PAGES if reads else 0)
