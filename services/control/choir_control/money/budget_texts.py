"""Texts for users about money: amounts, and questions about exhausted budgets. Pure."""

from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from choir_common.wire.money import MoneyBudget
from choir_common.wire.money_text import format_usd
from choir_control.money.charges import TOTALS

_NAMES: dict[MoneyBudget, str] = {
    "usd_per_call": "one model call",
    "usd_per_job": "this core job",
    "usd_per_session": "this session",
    "usd_per_day": "today",
    "usd_per_month": "this month",
    "total_usd_per_day": "today for all agents together",
    "total_usd_per_month": "this month for all agents together",
}


def budget_question(
    budget: MoneyBudget,
    *,
    used: Decimal,
    needed: Decimal,
    limit: Decimal,
    configured: Decimal,
    end: datetime | None,
    zone: str,
    may_grant: bool,
) -> str:
    """Return the text for the user: what was used of the limit, and how to continue."""
    if budget == "usd_per_call":
        fact = f"One model call now costs about {format_usd(needed)}, and the limit is {format_usd(limit)}."
    else:
        fact = (
            f"The budget for {_NAMES[budget]} is used up: {format_usd(used)} of {format_usd(limit)}, and "
            f"the next step needs up to {format_usd(needed)}."
        )
    until = "" if end is None else f" It begins anew on {_moment(end, zone)}."
    raise_it = f"raise budgets.{budget} in config.json and apply it"
    if not may_grant:
        return f"{fact}{until} Only an admin can allow more with /continue, or {raise_it}."
    return (
        f"{fact}{until} Answer /continue to allow {format_usd(configured)} more, or {raise_it}; until then "
        "I do not call the model."
    )


def unknown_price_text(budget: MoneyBudget, name: str, model: str) -> str:
    """Return the text for a call that no budget can be applied to."""
    return (
        f"The price of the model {model} is unknown, so the limit budgets.{budget} cannot be kept. Set "
        f"models.{name}.prices in config.json (0 for a free model) and apply it; until then I do not call it."
    )


def may_be_granted(budget: MoneyBudget, *, is_admin: bool) -> bool:
    """Return whether a user may exceed a budget."""
    return is_admin or budget not in TOTALS


def _moment(moment: datetime, zone: str) -> str:
    return f"{moment.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M} {zone}"
