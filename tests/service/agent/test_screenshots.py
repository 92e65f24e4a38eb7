"""A screenshot of the browser tool reaches a model that sees; others get a description or a note."""

from collections.abc import Callable, Sequence

from PIL import Image

from choir_common.wire.browser import BrowseToolOutput, SavedFile
from choir_common.wire.config import ModelConfig
from choir_common.wire.events import PictureDescribed, ToolResultCommitted
from choir_common.wire.rpc import HostToolRequest, HostToolResponse
from choir_testing.providers.anthropic import AnthropicProvider
from choir_testing.providers.openai import OpenAi
from choir_testing.providers.provider import SECRET, Answer, Call, FakeProvider
from choir_testing.providers.server import run_provider
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.running_agent import running_agent

SHOT = ".choirtmp/send/screenshot.png"
LOOK = Answer(calls=(Call("choir_web_browse", {"action": "screenshot"}),))


def browser_of(control: ControlStandIn) -> Callable[[HostToolRequest], HostToolResponse]:
    """Return a host tool that saves a screenshot in the workspace, as control does."""

    def answer(request: HostToolRequest) -> HostToolResponse:
        target = control.workspace / SHOT
        target.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (1280, 800), "red").save(target)
        file = SavedFile(path=SHOT, mime="image/png", size=target.stat().st_size)
        page = BrowseToolOutput(
            url="http://a.example/",
            status=200,
            title="A garden",
            text="",
            truncated=False,
            file=file,
        )
        return HostToolResponse(
            call_id=request.call_id, status="success", output=page.model_dump(mode="json")
        )

    return answer


async def look(
    provider: FakeProvider, model: ModelConfig, eye: FakeProvider | None = None
) -> ControlStandIn:
    """Let an agent with this model take a screenshot, and describe it with another model, if there is one."""
    async with run_control(provider.endpoint) as control:
        control.secrets = {SECRET: provider.key}
        control.bound = {"model": model}
        if eye is not None:
            control.bound["vision_model"] = eye.settings(input=("text", "image"))
        control.host_tool = browser_of(control)
        async with running_agent(control):
            await control.say("what does the page look like?")
            await control.replied()
    return control


def last_texts(provider: FakeProvider) -> str:
    return str(provider.requests[-1].body["messages"])


def results(control: ControlStandIn) -> Sequence[ToolResultCommitted]:
    return [p for p in control.payloads() if isinstance(p, ToolResultCommitted)]


async def test_a_screenshot_reaches_a_model_that_sees() -> None:
    for provider in (OpenAi(), AnthropicProvider()):
        provider.script(LOOK)
        async with run_provider(provider):
            control = await look(provider, provider.settings(input=("text", "image")))
        first, second = provider.requests
        assert len(provider.images_of(first)) == 0
        assert len(provider.images_of(second)) == 1
        (result,) = results(control)
        assert [picture.path for picture in result.pictures] == [SHOT]
        assert provider.refusals == []


async def test_a_model_that_does_not_see_gets_the_description_of_a_screenshot() -> None:
    provider, eye = OpenAi(), OpenAi(model="a-model-that-sees")
    provider.script(LOOK)
    eye.default = Answer("A red rectangle.")
    async with run_provider(provider), run_provider(eye):
        control = await look(provider, provider.settings(input=("text",)), eye)
    assert len(eye.images_of(eye.requests[0])) == 1
    assert not provider.images_of(provider.requests[-1])
    assert "A red rectangle." in last_texts(provider)
    described = [p for p in control.payloads() if isinstance(p, PictureDescribed)]
    assert [event.path for event in described] == [SHOT]


async def test_without_any_model_that_sees_the_model_is_told_that_it_cannot_see_the_screenshot() -> (
    None
):
    provider = OpenAi()
    provider.script(LOOK)
    async with run_provider(provider):
        await look(provider, provider.settings(input=("text",)))
    assert not provider.images_of(provider.requests[-1])
    assert SHOT in last_texts(provider)
    assert "cannot see" in last_texts(provider)
