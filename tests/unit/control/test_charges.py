"""Usage becomes charges with the prices in force, on the day of the agent."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from choir_common.eventlog.chain import LogHead, link_event
from choir_common.wire.config import Config
from choir_common.wire.events import (
    EventPayload,
    MemoryCompacted,
    ModelOutput,
    PictureDescribed,
    ReferenceSummary,
    Reply,
    ToolResultCommitted,
    UserMessageStarted,
)
from choir_common.wire.money import ModelUsage
from choir_common.wire.speech import SpeechUsage
from choir_control.configuration.current import ConfigSnapshot
from choir_control.money.charges import Charge, ChargePricer, ReportedGrant
from choir_control.money.usage import usages_of_event

NOW = datetime(2026, 11, 23, 23, 30, tzinfo=UTC)
CONFIG = Config.model_validate_json(
    """{
    "agents": {"main": {"defaults": {"workspace": "w", "llm": "a", "dm": "d"}, "timezone": "Asia/Tokyo",
                        "budgets": {"usd_per_day": 2}}},
    "workspaces": {},
    "models": {"a": {"model": "gpt-4o", "prices": {"input": 1, "output": 2}}, "b": {"model": "gpt-4o"},
               "own": {"model": "own"}},
    "tts": {"voice": {"model_id": "speaker", "endpoint": "http://x", "secret": "s",
                      "prices": {"million_characters": 100}}},
    "transcription": {"ears": {"model": "own", "endpoint": "http://x", "prices": {"audio_minute": 0.1}}},
    "dms": {"d": {"gateway": "g", "user_id": "1"}, "admin": {"gateway": "g", "user_id": "2", "admin": true}},
    "budgets": {"usd_per_day": 1, "total_usd_per_day": 5}
}"""
)


@dataclass(frozen=True)
class FixedConfigService:
    current: ConfigSnapshot


PRICER = ChargePricer(FixedConfigService(ConfigSnapshot(1, CONFIG)))  # type: ignore[arg-type]


def charges(payload: EventPayload, lane: str = "edge", at: datetime = NOW) -> list[Charge]:
    event = link_event(LogHead(), "ses_1", lane, payload, at)
    return list(PRICER.price("main", usages_of_event(event, payload, NOW)))


def output(**usage: Any) -> ModelOutput:
    return ModelOutput(
        turn_id="t",
        text="words",
        model="gpt-4o-2024-08-06",
        finish_reason="stop",
        prompt_tokens=1_000_000,
        completion_tokens=1_000_000,
        usage=ModelUsage(**usage) if usage else None,
    )


def test_the_entry_that_made_the_call_gives_the_prices() -> None:
    (own,) = charges(output(name="a"))
    assert (own.cost, own.source, own.usage.entry_id) == (3, "config", "ses_1:1")
    (listed,) = charges(output(name="b"))
    assert (listed.cost, listed.source) == (Decimal("12.5"), "table")
    # a log of an older version, or of an entry that is gone
    assert charges(output())[0].source == charges(output(name="gone"))[0].source == "table"


def test_a_charge_belongs_to_the_day_of_the_agent() -> None:
    (charge,) = charges(output(name="a"))
    assert charge.day == date(2026, 11, 24), "it is morning in Tokyo"
    # a clock that is ahead cannot put a call into tomorrow's budget
    (ahead,) = charges(output(name="a"), at=datetime(2027, 1, 1, tzinfo=UTC))
    assert ahead.usage.at == NOW


def test_what_the_provider_bills_is_kept_beside_our_own_calculation() -> None:
    (charge,) = charges(output(name="a", billed_usd=Decimal("2.9")))
    assert (charge.cost, charge.computed, charge.source) == (Decimal("2.9"), 3, "provider")


def test_a_model_without_a_price_has_no_cost() -> None:
    payload = output(name="own").model_copy(update={"model": "own"})
    (charge,) = charges(payload)
    assert (charge.cost, charge.source, charge.usage.tokens) == (None, "unknown", 2_000_000)


def test_compactions_pictures_and_speech_are_charged_and_failures_are_not() -> None:
    summary = ReferenceSummary()
    nothing = MemoryCompacted(target="edge", through_rev=1, delta={}, summary=summary)
    assert charges(nothing) == []
    made = nothing.model_copy(update={"model": "gpt-4o", "prompt_tokens": 1_000})
    assert charges(made)[0].usage.lane == "edge"
    failed = PictureDescribed(turn_id="t", path="p", model="gpt-4o", problem="failed")
    assert charges(failed) == []
    spoken = SpeechUsage(kind="speech", name="voice", model="speaker", characters=1_000)
    reply = Reply(turn_id="t", dm="d", text="", kind="answer", usage=(spoken, spoken))
    assert [(it.cost, it.usage.entry_id) for it in charges(reply)] == [
        (Decimal("0.1"), "ses_1:1:0"),
        (Decimal("0.1"), "ses_1:1:1"),
    ]
    heard = SpeechUsage(kind="transcription", name="x", model="whisper-1", audio_seconds=90.5)
    message = UserMessageStarted(turn_id="t", inbox_id="i", dm="d", text="", usage=(heard,))
    assert charges(message)[0].cost == Decimal("0.00905")
    # the entry that heard it has prices of its own
    configured = heard.model_copy(update={"name": "ears", "model": "own"})
    own = message.model_copy(update={"usage": (configured,)})
    assert (charges(own)[0].cost, charges(own)[0].source) == (
        Decimal("0.150833333333"),
        "config",
    )
    unknown = heard.model_copy(update={"audio_seconds": None})
    message = message.model_copy(update={"usage": (unknown,)})
    assert charges(message)[0].cost is None, "its length is unknown"


def test_a_core_jobs_charge_has_its_id_and_not_its_name() -> None:
    (charge,) = charges(output(name="a", job_id="job_1"), "core:secret-plan")
    assert (charge.usage.lane, charge.usage.job_id) == ("core", "job_1")
    assert "secret-plan" not in repr(charge)
    spoken = SpeechUsage(kind="speech", name="voice", model="speaker", characters=10)
    result = ToolResultCommitted(
        turn_id="job_1",
        call_id="c",
        tool="choir.tts.speak",
        status="success",
        output={},
        usage=(spoken,),
    )
    (charge,) = charges(result, "core:secret-plan")
    assert (charge.usage.lane, charge.usage.job_id) == ("core", "job_1")
    assert charges(result)[0].usage.job_id is None, "a turn is no job"


def test_a_grant_is_the_configured_limit_and_only_admins_extend_all_agents_budget() -> None:
    own, total, unset = (
        ReportedGrant(1, "usd_per_day", NOW, "edge"),
        ReportedGrant(2, "total_usd_per_day", NOW, "edge"),
        ReportedGrant(3, "usd_per_month", NOW, "edge"),
    )
    for dm, expected in (("d", [(1, 2)]), ("admin", [(1, 2), (2, 5)]), ("gone", [(1, 2)])):
        priced = PRICER.price_grants("main", (dm,), (own, total, unset))
        assert [(it.grant.rev, it.amount) for it in priced] == expected


def test_the_conversation_of_a_grant_decides_whether_an_admin_gave_it() -> None:
    lanes = {"edge": False, "edge:admin": True, "edge:elsewhere": False, "core:admin": False}
    for lane, is_admin in lanes.items():
        total = ReportedGrant(1, "total_usd_per_day", NOW, lane)
        assert bool(PRICER.price_grants("main", ("d", "admin"), (total,))) is is_admin
    # an admin's conversation that the session does not serve
    total = ReportedGrant(1, "total_usd_per_day", NOW, "edge:admin")
    assert not PRICER.price_grants("main", ("d",), (total,))


@pytest.mark.parametrize("seconds", [1e20, 1e300])
def test_a_duration_that_no_price_can_be_computed_for_is_limited(seconds: float) -> None:
    usage = SpeechUsage(kind="transcription", name="w", model="whisper-1", audio_seconds=seconds)
    heard = UserMessageStarted(turn_id="t", inbox_id="i", dm="d", text="x", usage=(usage,))
    (charge,) = charges(heard)
    assert charge.cost is not None and charge.usage.audio_seconds == 10**9
