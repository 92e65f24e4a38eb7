"""Texts for users about money: amounts, and questions about exhausted budgets. Pure."""

from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from choir_common.i18n import _, join
from choir_common.wire.money import MoneyBudget
from choir_common.wire.money_text import format_usd
from choir_control.money.charges import TOTALS

_NAMES: dict[MoneyBudget, str] = {
    "usd_per_call": _("one model call"),
    "usd_per_job": _("this core job"),
    "usd_per_session": _("this session"),
    "usd_per_day": _("today"),
    "usd_per_month": _("this month"),
    "total_usd_per_day": _("today for all agents together"),
    "total_usd_per_month": _("this month for all agents together"),
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
        fact = _("One model call now costs about {needed}, and the limit is {limit}.").format(
            needed=format_usd(needed), limit=format_usd(limit)
        )
    else:
        fact = _(
            "The budget for {period} is used up: {used} of {limit}, and the next step needs up to "
            "{needed}."
        ).format(
            period=_NAMES[budget],
            used=format_usd(used),
            limit=format_usd(limit),
            needed=format_usd(needed),
        )
    parts: list[str] = [fact]
    if end is not None:
        parts.append(_("It begins anew on {moment}.").format(moment=_moment(end, zone)))
    raise_it = raise_limit_text(path)
    if may_grant:
        how = _(
            "Answer /continue to allow {amount} more, or {raise_it}; until then I do not call the model."
        ).format(amount=format_usd(configured), raise_it=raise_it)
    else:
        how = _("Only an admin can allow more with /continue, or {raise_it}.").format(
            raise_it=raise_it
        )
    return join(" ", [*parts, how])


def memory_notice(
    budget: MoneyBudget, *, used: Decimal, needed: Decimal, limit: Decimal, path: str
) -> str:
    """Return the notice to a user that memory's model cannot be called."""
    shortage = _shortage(budget, used=used, needed=needed, limit=limit)
    return _(
        "Memory's model is not called, because a budget is used up: {shortage}. Summaries and "
        "facts wait until the budget allows them; to raise it, {raise_it}."
    ).format(shortage=shortage, raise_it=raise_limit_text(path))


def direct_call_notice(
    budget: MoneyBudget, *, used: Decimal, needed: Decimal, limit: Decimal, path: str
) -> str:
    """Return the notice to an operator or a client that their call cannot be made."""
    shortage = _shortage(budget, used=used, needed=needed, limit=limit)
    return _(
        "The model is not called, because a budget is used up: {shortage}. To raise it, {raise_it}."
    ).format(shortage=shortage, raise_it=raise_limit_text(path))


def _shortage(budget: MoneyBudget, *, used: Decimal, needed: Decimal, limit: Decimal) -> str:
    if budget == "usd_per_call":
        return _("A call costs about {needed}, and the limit is {limit}").format(
            needed=format_usd(needed), limit=format_usd(limit)
        )
    return _("{used} of {limit} for {period} are used, and a call needs up to {needed}").format(
        used=format_usd(used),
        limit=format_usd(limit),
        period=_NAMES[budget],
        needed=format_usd(needed),
    )


def raise_limit_text(path: str) -> str:
    """Return the commands that raise a limit."""
    return _(
        "run `choirctl config set {path} AMOUNT`, then `choirctl config load` and `choirctl "
        "config apply`"
    ).format(path=path)


def unknown_price_text(budget: MoneyBudget, entry: str, model: str) -> str:
    """Return the text for a call that no budget can be applied to; `entry` is the path of its settings."""
    return _(
        "The price of the model {model} is unknown, so the limit budgets.{budget} cannot be "
        "kept. Set {entry}.prices in config.json (0 for a free model) and apply it; until then "
        "I do not call it."
    ).format(model=model, budget=budget, entry=entry)


def may_be_granted(budget: MoneyBudget, *, is_admin: bool) -> bool:
    """Return whether a user may exceed a budget."""
    return is_admin or budget not in TOTALS


def _moment(moment: datetime, zone: str) -> str:
    return f"{moment.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M} {zone}"
