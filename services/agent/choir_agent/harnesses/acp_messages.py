"""Parsing of what an ACP agent sends, and of what little is believed. Pure."""

import math
from decimal import Decimal

from pydantic import JsonValue

from choir_agent.harnesses.updates import HarnessAbout, HarnessError, HarnessUsage, PlanReport
from choir_common.escape_text import escape_hidden
from choir_common.i18n import _
from choir_common.wire.events import ToolResultCommitted
from choir_common.wire.model import JsonObject

PROTOCOL_VERSION = 1
AUTH_REQUIRED = -32000
MAX_LABEL = 200
MAX_USD = 1_000_000
MAX_PLAN, MAX_CAPABILITIES = 30, 20


def result_of(message: JsonObject, method: str) -> JsonObject:
    error = message.get("error")
    if isinstance(error, dict):
        text = label(str(error.get("message")))
        if error.get("code") == AUTH_REQUIRED:
            raise HarnessError(
                _(
                    "it wants a login ({text}): give it a key in `secrets`, as its documentation says"
                ).format(text=text)
            )
        raise HarnessError(_("it refused {method}: {text}").format(method=method, text=text))
    result = message.get("result")
    return result if isinstance(result, dict) else {}


def about_of(answer: JsonObject) -> HarnessAbout:
    capabilities = answer.get("agentCapabilities")
    offered = capabilities if isinstance(capabilities, dict) else {}
    info = answer.get("agentInfo")
    about = info if isinstance(info, dict) else {}
    name = " ".join(label(str(about[key])) for key in ("name", "version") if about.get(key))
    return HarnessAbout(
        protocol_version=str(PROTOCOL_VERSION),
        name=name,
        capabilities=tuple(sorted(_names(offered)))[:MAX_CAPABILITIES],
        can_resume=offered.get("loadSession") is True,
    )


def _names(offered: JsonObject, prefix: str = "") -> list[str]:
    names: list[str] = []
    for key, value in [*offered.items()][:MAX_CAPABILITIES]:
        name = label(f"{prefix}{key}")[:60]
        if value is True:
            names.append(name)
        elif isinstance(value, dict) and not prefix:
            names += _names(value, f"{key}.")
    return names


def plan_of(entries: JsonValue) -> PlanReport | None:
    listed = entries if isinstance(entries, list) else []
    return PlanReport(
        tuple(
            (label(str(entry.get("content"))), label(str(entry.get("status"))))
            for entry in listed[:MAX_PLAN]
            if isinstance(entry, dict)
        )
    )


def cost_of(cost: JsonValue) -> HarnessUsage | None:
    amount = cost.get("amount") if isinstance(cost, dict) else None
    if not isinstance(cost, dict) or cost.get("currency") != "USD":
        return None
    return None if usd(amount) is None else HarnessUsage(cost_usd=usd(amount))


def usd(amount: JsonValue) -> Decimal | None:
    """Return a plausible amount of US dollars, or None."""
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        return None
    is_plausible = math.isfinite(amount) and 0 <= amount <= MAX_USD
    return Decimal(repr(amount)).quantize(Decimal("1e-9")) if is_plausible else None


def usage_of(usage: JsonValue) -> HarnessUsage | None:
    if not isinstance(usage, dict):
        return None
    return HarnessUsage(
        input_tokens=tokens(usage.get("inputTokens")),
        output_tokens=tokens(usage.get("outputTokens")),
        reasoning_tokens=tokens(usage.get("thoughtTokens")),
        cached_tokens=tokens(usage.get("cachedReadTokens")),
        cache_write_tokens=tokens(usage.get("cachedWriteTokens")),
    )


def tokens(value: JsonValue) -> int:
    """Return a plausible number of tokens."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return min(max(0, value), 10**12) if is_number and isinstance(value, int) else 0


def label(text: str) -> str:
    """Return one short line without hidden characters."""
    return escape_hidden(" ".join(text.split())[:MAX_LABEL], keep="")


def cancelled_result(tool: str) -> ToolResultCommitted:
    """Return the result of a request whose turn is cancelled."""
    return ToolResultCommitted(
        turn_id="",
        call_id="",
        tool=tool,
        status="interrupted",
        output={"message": "the job was cancelled"},
    )
