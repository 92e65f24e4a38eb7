"""Memory's own language model: asked over HTTP, with its own key, and what it costs when it misbehaves."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from choir_common.bus.client import Bus
from choir_common.clients.memory import NatsMemoryClient, NatsSessionMemoryClient
from choir_common.clock import SystemClock
from choir_common.errors import ChoirError, RateLimited, Unavailable
from choir_common.postgres.pool import Database
from choir_common.wire.config import MemoryServiceConfig, ModelConfig
from choir_common.wire.memory_search import EnsureSpace, MemoryQuery
from choir_common.wire.memory_sessions import RecordUnits, SessionUnit
from choir_common.wire.model_config import RequestTemplate
from choir_common.wire.money import MoneyReserved
from choir_memory.llm.model import ConfiguredLanguageModel, ProviderLanguageModel
from choir_models.fallback import CoolDowns, NamedModel
from choir_testing.providers.anthropic import AnthropicProvider
from choir_testing.providers.openai import OpenAi
from choir_testing.providers.provider import SECRET, ErrorFault, Hang, Usage
from choir_testing.providers.provider import Answer as ProviderAnswer
from choir_testing.providers.server import run_provider
from tests.service.memory.chat_provider import ChatProvider
from tests.service.memory.derived import answer, propose
from tests.service.memory.servers import MakeMemory, until
from tests.support.postgres import PASSWORD
from tests.support.sessions import LogBuilder
from tests.support.usage_fakes import RecordingLedger, control_endpoints, make_metering


def language_model(
    settings: ModelConfig,
    key: str,
    *fallbacks: NamedModel,
    ledger: RecordingLedger | None = None,
    **keys: str,
) -> ProviderLanguageModel:
    """Return a model with its fallbacks and their keys."""
    return ProviderLanguageModel(
        [NamedModel("", settings), *fallbacks],
        keys={str(settings.secret): key, **keys},
        **make_metering(ledger),
        cool_downs=CoolDowns(SystemClock()),
    )


async def ask(provider: ChatProvider) -> str:
    model = language_model(provider.settings, "model-key")
    try:
        return await model.answer("Sum up.", "> Ana: hello")
    finally:
        await model.close()


async def test_it_is_asked_with_its_key_and_the_material_apart_from_the_instructions() -> None:
    async with ChatProvider(lambda instructions, material: (200, f" {material} ")) as provider:
        assert await ask(provider) == "> Ana: hello"
    assert provider.keys == ["bearer model-key"]
    (body,) = provider.asked
    assert body["model"] == "scripted"
    assert body["messages"] == [
        {"role": "system", "content": "Sum up."},
        {"role": "user", "content": "> Ana: hello"},
    ]


async def test_its_requests_have_what_their_template_adds() -> None:
    async with ChatProvider(lambda instructions, material: (200, "fine")) as provider:
        template = RequestTemplate(
            top_p=0.5, extra_body={"seed": 7}, extra_headers={"X-Title": "Choir"}
        )
        settings = provider.settings.model_copy(update={"request": template})
        model = language_model(settings, "model-key")
        await model.answer("Sum up.", "> Ana: hello")
        await model.close()
    (body,) = provider.asked
    assert (body["top_p"], body["seed"]) == (0.5, 7)
    (headers,) = provider.headers
    assert headers["x-title"] == "choir"


@pytest.mark.parametrize(
    ("status", "words", "error", "said"),
    [
        (429, "", RateLimited, "rate limit"),
        (401, "", Unavailable, "memory.model"),
        (500, "", Unavailable, "provider failed"),
        (200, "garbage", Unavailable, "cannot be parsed"),
        (200, "  ", Unavailable, "empty, incomplete or oversized"),
        (200, "x" * 60_001, Unavailable, "empty, incomplete or oversized"),
    ],
)
async def test_what_it_does_wrong_is_an_error_that_quotes_nothing(
    status: int, words: str, error: type[ChoirError], said: str
) -> None:
    async with ChatProvider(lambda instructions, material: (status, words)) as provider:
        with pytest.raises(error, match=said) as raised:
            await ask(provider)
    assert "Ana" not in raised.value.message and "model-key" not in raised.value.message


DUE_NOW = (
    "UPDATE choir_memory.cursors SET position = position || "
    "jsonb_build_object('due', now() - interval '1 second') WHERE position ? 'due'"
)


@pytest.fixture
async def ledger(bus: Bus) -> AsyncIterator[RecordingLedger]:
    """Control's ledger on the bus."""
    ledger = RecordingLedger()
    async with bus.serve("choir-control", "1.0.0", *control_endpoints(ledger)):
        yield ledger


async def test_the_service_learns_facts_and_sums_up_days_by_itself(
    make_memory: MakeMemory, ledger: RecordingLedger
) -> None:
    def say(instructions: str, material: str) -> tuple[int, str]:
        known = answer(propose()) if "candidates" in instructions else "Ana told of her tea."
        return 200, known

    async with ChatProvider(say) as provider:
        memory = make_memory(CHOIR_ROUND_S="0.2")
        memory.secrets["model"] = json.loads(provider.settings.model_dump_json())
        memory.secrets["model_key"] = "model-key"
        await memory.start()
        at = datetime(2026, 3, 1, 9, tzinfo=UTC)
        unit = SessionUnit(id="u", text="I only drink green tea.", at=at, position=0, speaker="Ana")
        told = RecordUnits(agent_id="main", session_id="s1", units=(unit,))
        await NatsSessionMemoryClient(memory.bus).record(told)
        async with Database(memory.dsn, PASSWORD, size=1, application="test") as database:
            # turns are read when no writer can be under way any more that began before them
            await database.execute(
                "UPDATE choir_main.memory_documents SET created_at = created_at - interval '5 minutes'"
            )
        client = NatsMemoryClient(memory.bus)
        fact = MemoryQuery(agent_id="main", store="knowledge", query="tea", kinds=("fact",))
        day = MemoryQuery(agent_id="main", store="session", query="tea", grain="day")

        async def learned() -> bool:
            return all([(await client.query(query)).hits for query in (fact, day)])

        await until(learned, 60)
        assert {request.agent_id for request in ledger.reserved} == {"main"}
        (known,) = (await client.query(fact)).hits
        (summary,) = (await client.query(day)).hits
        assert await memory.stop() == 0
    assert (known.kind, known.text, known.trust) == ("fact", "The user drinks green tea.", 70)
    assert (summary.tier, summary.text) == ("grain_summary", "Ana told of her tea.")
    assert "model-key" not in memory.log


async def test_the_service_learns_a_fact_between_two_passes(
    make_memory: MakeMemory, ledger: RecordingLedger
) -> None:
    async with ChatProvider(lambda instructions, material: (200, answer(propose()))) as provider:
        # the first pass has nothing to read, and there is no second one
        memory = make_memory(CHOIR_ROUND_S="86400", CHOIR_EXTRACTION_POLL_S="0.2")
        memory.secrets["model"] = json.loads(provider.settings.model_dump_json())
        memory.secrets["model_key"] = "model-key"
        await memory.start()
        refused = MoneyReserved(budget="usd_per_day", text="The budget is used up.")
        ledger.refusal = refused
        client = NatsMemoryClient(memory.bus)
        await client.ensure(EnsureSpace(agent_id="main"))
        script = LogBuilder("s1")
        script.start()
        script.user("I only drink green tea.", "t1")
        await NatsSessionMemoryClient(memory.bus).archive(script.page())
        async with Database(memory.dsn, PASSWORD, size=1, application="test") as database:
            # turns are read when no writer can be under way any more that began before them
            await database.execute(
                "UPDATE choir_main.memory_documents SET created_at = created_at - interval '5 minutes'"
            )
            await database.execute(DUE_NOW)
        fact = MemoryQuery(agent_id="main", store="knowledge", query="tea", kinds=("fact",))

        async def learned() -> bool:
            return bool((await client.query(fact)).hits)

        async def asked() -> bool:
            return bool(ledger.reserved)

        await until(asked, 60)
        assert provider.asked == [], "a call that the budget does not allow is not made"
        ledger.refusal = None
        async with Database(memory.dsn, PASSWORD, size=1, application="test") as database:

            async def learned_when_due() -> bool:
                # each time: the pass that was refused may store its own next time after ours
                await database.execute(DUE_NOW)
                return await learned()

            await until(learned_when_due, 60)
        assert await memory.stop() == 0
    # what control stored is settled: each call names the reservation it was made under
    settled = {report.usage.reservation for report in ledger.reports if report.kind == "memory"}
    assert settled and settled <= {request.reservation for request in ledger.reserved}
    assert ledger.released == []


async def test_a_model_of_another_api_answers_as_well() -> None:
    async with run_provider(AnthropicProvider()) as provider:
        provider.script(ProviderAnswer(" Ana said hello. ", reasoning="Easy."), ErrorFault("key"))
        model = language_model(provider.settings(), provider.key)
        assert await model.answer("Sum up.", "> Ana: hello") == "Ana said hello."
        with pytest.raises(Unavailable, match=r"memory\.model"):
            await model.answer("Sum up.", "> Ana: hello")
        await model.close()
    assert provider.refusals == []
    assert provider.requests[0].body["system"] == [{"type": "text", "text": "Sum up."}]


async def test_a_completion_that_was_cut_is_not_used() -> None:
    async with run_provider(AnthropicProvider()) as provider:
        provider.script(ProviderAnswer("Ana said", is_cut=True))
        model = language_model(provider.settings(), provider.key)
        with pytest.raises(Unavailable, match="incomplete"):
            await model.answer("Sum up.", "> Ana: hello")
        await model.close()


async def test_its_fallback_answers_while_it_does_not_with_its_own_key_and_price() -> None:
    async with run_provider(OpenAi(key="own")) as first, run_provider(OpenAi(key="spare")) as spare:
        first.outage = ErrorFault("overloaded")
        spare.default = ProviderAnswer("Ana said hello.")
        other = NamedModel("spare", spare.settings(secret="spare_key"))
        ledger = RecordingLedger()
        metering = make_metering(ledger)
        model = ProviderLanguageModel(
            [NamedModel("", first.settings()), other],
            keys={SECRET: "own", "spare_key": "spare"},
            **metering,
            cool_downs=CoolDowns(SystemClock()),
        )
        for _ in range(2):
            assert await model.answer("Sum up.", "> Ana: hello") == "Ana said hello."
        # it cools down
        assert len(first.requests) == 1
        spare.outage = ErrorFault("key")
        with pytest.raises(Unavailable, match="provider failed"):
            await model.answer("Sum up.", "> Ana: hello")
        await model.close()
        await metering["usage"].send()
    names = [report.usage.name for report in ledger.reports if report.usage]
    assert names == ["spare", "spare"]
    # each attempt is reserved by its own model's price, and a failed one gives its money back
    assert [request.call.name for request in ledger.reserved] == ["", "spare", "spare", "spare", ""]
    assert len(ledger.released) == 3


async def test_a_fallback_without_its_key_is_left_out_until_a_restart() -> None:
    async with run_provider(OpenAi(key="own")) as first, run_provider(OpenAi(key="spare")) as spare:
        first.outage = ErrorFault("overloaded")
        config = MemoryServiceConfig(
            model=first.settings(fallback=("spare",)),
            fallback_models={"spare": spare.settings(secret="spare_key")},
        )
        for keys, error in (({}, Unavailable), ({"spare_key": "spare"}, None)):
            configured = ConfiguredLanguageModel(
                {SECRET: "own", **keys}, **make_metering(), cool_downs=CoolDowns(SystemClock())
            )
            await configured.configure(config)
            assert configured.model is not None
            if error:
                with pytest.raises(error):
                    await configured.model.answer("Sum up.", "> Ana: hello")
            else:
                assert await configured.model.answer("Sum up.", "> Ana: hello") == "All is well."
            await configured.close()


async def test_a_call_without_a_usable_answer_is_reported_if_it_is_billed_and_released_if_not() -> (
    None
):
    ledger = RecordingLedger()
    metering = make_metering(ledger)
    async with run_provider(OpenAi()) as provider:
        settings = provider.settings()
        model = ProviderLanguageModel(
            [NamedModel("", settings)],
            keys={str(settings.secret): provider.key},
            **metering,
            cool_downs=CoolDowns(SystemClock()),
        )
        provider.script(
            ProviderAnswer("It", usage=Usage(700, 30), is_filtered=True),
            ErrorFault("server"),
            # a whole response comes after its end, so one that is cut is billed
            ProviderAnswer("Never seen", abort_after=1),
            Hang(),
        )
        for _ in range(3):
            with pytest.raises(ChoirError):
                await model.answer("Sum up.", "> Ana: hello")
        waiting = asyncio.create_task(model.answer("Sum up.", "> Ana: hello"))

        async def asked() -> bool:
            return len(provider.requests) == 4

        await until(asked)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await model.answer("Sum up.", "> Ana: hello") == "All is well."
        limits = [provider.limits_of(request) for request in provider.requests]
        await model.close()
        await metering["usage"].send()
    filtered, cut, cancelled, answered = ledger.reports
    assert (filtered.prompt_tokens, filtered.completion_tokens) == (700, 30)
    counted = [report.usage.counted for report in ledger.reports]
    assert counted == [True, False, False, True]
    assert cut.prompt_tokens > 20 and cancelled.prompt_tokens == cut.prompt_tokens
    assert answered.prompt_tokens == 1_000
    reservations = [request.reservation for request in ledger.reserved]
    assert ledger.released == [reservations.pop(1)]
    assert [report.usage.reservation for report in ledger.reports] == reservations
    # what the fake ledger reserves needs no limit
    assert limits == [[]] * 5


async def test_the_output_is_limited_to_what_money_was_reserved_for() -> None:
    ledger = RecordingLedger()
    ledger.completion_tokens = 5_000
    async with run_provider(OpenAi()) as provider:
        model = language_model(provider.settings(), provider.key, ledger=ledger)
        await model.answer("Sum up.", "> Ana: hello")
        await model.close()
    assert provider.limits_of(provider.requests[0]) == [5_000]
    call = ledger.reserved[0].call
    assert (call.completion_tokens, call.least_completion_tokens) == (32_000, 4_000)
