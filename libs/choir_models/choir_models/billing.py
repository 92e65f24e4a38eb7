"""What a provider says that it bills for a call, in its usage. Pure.

OpenRouter documents it for Chat Completions and for Responses.
"""

from decimal import Decimal

from pydantic import JsonValue

from choir_common.wire.model import JsonObject

MAX_BILLED_USD = 1_000_000
"""Upper bound on a reported cost; a larger number is a provider's mistake."""
_UPSTREAM = ("upstream_inference_cost",)
_UPSTREAM_PARTS = ("upstream_inference_input_cost", "upstream_inference_output_cost")


def billed_usd(usage: JsonObject) -> Decimal | None:
    """Return what is billed in US dollars, or None if the usage does not say.

    For a key of one's own, the upstream provider bills besides `cost`.
    """
    cost = _dollars(usage.get("cost"))
    if cost is None or usage.get("is_byok") is not True:
        return cost
    details = usage.get("cost_details")
    for names in (_UPSTREAM, _UPSTREAM_PARTS):
        parts = [
            _dollars(details.get(name)) if isinstance(details, dict) else None for name in names
        ]
        amounts = [part for part in parts if part is not None]
        if len(amounts) == len(names):
            return cost + sum(amounts)
    return None


def _dollars(amount: JsonValue) -> Decimal | None:
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        return None
    # `repr` is the shortest text of a float: what the provider wrote.
    return Decimal(repr(amount)) if 0 <= amount <= MAX_BILLED_USD else None
