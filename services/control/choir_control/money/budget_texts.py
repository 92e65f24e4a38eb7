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
    path: str,
) -> str:
    """Return the text for the user: what was used of the limit, and how to continue.

    `path` is that of the setting.
    """
    if budget == "usd_per_call":
        fact = f"One model call now costs about {format_usd(needed)}, and the limit is {format_usd(limit)}."
    else:
        fact = (
            f"The budget for {_NAMES[budget]} is used up: {format_usd(used)} of {format_usd(limit)}, and "
            f"the next step needs up to {format_usd(needed)}."
        )
    until = "" if end is None else f" It begins anew on {_moment(end, zone)}."
    raise_it = raise_limit_text(path)
    if not may_grant:
        return f"{fact}{until} Only an admin can allow more with /continue, or {raise_it}."
    return (
        f"{fact}{until} Answer /continue to allow {format_usd(configured)} more, or {raise_it}; until then "
        "I do not call the model."
    )


def memory_notice(
    budget: MoneyBudget, *, used: Decimal, needed: Decimal, limit: Decimal, path: str
) -> str:
    """Return the notice to a user that memory's model cannot be called."""
    shortage = _shortage(budget, used=used, needed=needed, limit=limit)
    return (
        f"Memory's model is not called, because a budget is used up: {shortage}. Summaries and facts wait "
        f"until the budget allows them; to raise it, {raise_limit_text(path)}."
    )


def direct_call_notice(
    budget: MoneyBudget, *, used: Decimal, needed: Decimal, limit: Decimal, path: str
) -> str:
    """Return the notice to an operator or a client that their call cannot be made."""
    shortage = _shortage(budget, used=used, needed=needed, limit=limit)
    return (
        f"The model is not called, because a budget is used up: {shortage}. To raise it, "
        f"{raise_limit_text(path)}."
    )


def _shortage(budget: MoneyBudget, *, used: Decimal, needed: Decimal, limit: Decimal) -> str:
    if budget == "usd_per_call":
        return f"A call costs about {format_usd(needed)}, and the limit is {format_usd(limit)}"
    return (
        f"{format_usd(used)} of {format_usd(limit)} for {_NAMES[budget]} are used, and a call needs up to "
        f"{format_usd(needed)}"
    )


def raise_limit_text(path: str) -> str:
    """Return the commands that raise a limit."""
    return f"run `choirctl config set {path} AMOUNT`, then `choirctl config load` and `choirctl config apply`"


def unknown_price_text(budget: MoneyBudget, entry: str, model: str) -> str:
    """Return the text for a call that no budget can be applied to; `entry` is the path of its settings."""
    return (
        f"The price of the model {model} is unknown, so the limit budgets.{budget} cannot be kept. Set "
        f"{entry}.prices in config.json (0 for a free model) and apply it; until then I do not call it."
    )


def may_be_granted(budget: MoneyBudget, *, is_admin: bool) -> bool:
    """Return whether a user may exceed a budget."""
    return is_admin or budget not in TOTALS


def _moment(moment: datetime, zone: str) -> str:
    return f"{moment.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M} {zone}"
