"""Request templates and feature flags reach a running agent with its next settings."""

from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from choir_common.wire.config import SearchConfig
from choir_common.wire.config_parts import FeatureFlags
from choir_common.wire.model_config import RequestTemplate
from choir_common.wire.signals import ConfigChangedSignal
from choir_testing.providers.openai import OpenRouter
from choir_testing.providers.provider import SECRET, RecordedRequest
from choir_testing.providers.server import run_provider
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.running_agent import running_agent
from tests.service.agent.scripted_model import Asked, calls, run_scripted, says

TEMPLATE = RequestTemplate(
    top_p=0.9,
    provider_routing={"order": ["anthropic"]},
    extra_body={"reasoning": {"enabled": True}, "temperature": 0.1},
    extra_headers={"X-Title": "Choir"},
)
SENT = datetime(2026, 11, 22, 7, 3, tzinfo=UTC)


def use(control: ControlStandIn, provider: OpenRouter) -> None:
    """Let the control's agents use this provider."""
    control.secrets = {SECRET: provider.key}
    control.bound = {"model": provider.settings(temperature=0.7)}


async def apply(control: ControlStandIn, **settings: object) -> None:
    """Give the running agent other settings, and wait until it has them."""
    control.bound = {**control.bound, **settings}
    control.config_version += 1
    await control.tell(ConfigChangedSignal(config_version=control.config_version))
    await control.until(lambda: control.heartbeats[-1].config_version == control.config_version)


def messages_of(request: RecordedRequest) -> Any:
    """Return the messages of a request."""
    return request.body["messages"]


def tools_of(request: RecordedRequest) -> Any:
    """Return the tools that a request offers."""
    return request.body["tools"]


def offered(provider: OpenRouter) -> list[set[str]]:
    """Return the names of the tools that each request offered."""
    return [
        {tool["function"]["name"] for tool in tools_of(request)} for request in provider.requests
    ]


async def test_what_a_template_adds_is_sent_from_the_next_call_on() -> None:
    async with run_provider(OpenRouter()) as provider, run_control(provider.endpoint) as control:
        use(control, provider)
        async with running_agent(control):
            await control.say("one", "inb_1")
            await control.replied(1)
            model = provider.settings(request=TEMPLATE, temperature=0.7)
            await apply(control, model=model)
            await control.say("two", "inb_2")
            await control.replied(2)
    before, after = (request.body for request in provider.requests)
    assert before["temperature"] == 0.7 and "top_p" not in before
    assert (after["temperature"], after["top_p"]) == (0.1, 0.9)
    assert after["provider"] == {"order": ["anthropic"]}
    assert after["reasoning"] == {"enabled": True}
    assert "x-title" not in provider.requests[0].headers
    assert provider.requests[1].headers["x-title"] == "Choir"
    assert provider.requests[1].headers["content-type"] == "application/json"


async def test_tools_without_what_they_need_are_not_offered_until_they_have_it() -> None:
    async with run_provider(OpenRouter()) as provider, run_control(provider.endpoint) as control:
        use(control, provider)
        control.bound |= {"has_repository": False}
        async with running_agent(control):
            await control.say("one", "inb_1")
            await control.replied(1)
            await apply(control, search=SearchConfig(secret="brave"), has_repository=True)
            await control.say("two", "inb_2")
            await control.replied(2)
    before, after = offered(provider)
    assert "choir_fs_read" in before and "choir_propose_config_change" in before
    needing = {"choir_email_send", "choir_notion_query", "choir_tts_speak"}
    assert not before & {*needing, "choir_web_search", "choir_propose_skill", "choir_propose_tool"}
    gained = {"choir_web_search", "choir_propose_skill", "choir_propose_tool"}
    # and the built-in skills, which need proposals
    assert after - before == {*gained, "choir_propose_repo_change", "choir_skill_start"}


async def test_what_is_switched_off_is_neither_offered_nor_allowed() -> None:
    seen: list[str] = []

    def script(asked: Asked) -> Response:
        if asked.turn.results:
            seen.append(asked.turn.results[-1].text)
            return says("done")
        seen.append(str(asked.turn.tool_names))
        return calls(("choir_web_browse", {"action": "open", "url": "https://example.org"}))

    async with run_scripted(script) as endpoint, run_control(endpoint) as control:
        control.bound = {"features": FeatureFlags(browsing=False, proposals=False)}
        async with running_agent(control):
            await control.say("open it")
            await control.replied()
    tools, result = seen
    assert "choir_web_browse" not in tools and "choir_propose" not in tools
    assert "switched_off" in result and "features" in result
    assert control.host_calls == [] or all(
        call.tool_name != "choir.web.browse" for call in control.host_calls
    )


async def test_a_call_of_no_known_tool_is_told_of_those_that_work() -> None:
    seen: list[str] = []

    def script(asked: Asked) -> Response:
        if asked.turn.results:
            seen.append(asked.turn.results[-1].text)
            return says("done")
        return calls(("choir_no_such", {}))

    async with run_scripted(script) as endpoint, run_control(endpoint) as control:
        async with running_agent(control):
            await control.say("go")
            await control.replied()
    (refusal,) = seen
    assert "choir_fs_read" in refusal
    assert "choir_email_send" not in refusal and "choir_core_report" not in refusal


async def test_message_times_can_be_switched_off() -> None:
    async with run_provider(OpenRouter()) as provider, run_control(provider.endpoint) as control:
        use(control, provider)
        control.bound |= {"features": FeatureFlags(message_times=False)}
        async with running_agent(control):
            await control.say("hello", "inb_1", SENT)
            await control.replied()
    assert messages_of(provider.requests[0])[-1]["content"] == "hello"
