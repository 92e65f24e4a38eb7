"""The command `/cost`: what the conversation's agent has spent, and what is left of its budgets."""

from choir_common.i18n import _, join, ngettext
from choir_common.wire.money import CostLine
from choir_common.wire.money_text import format_usd
from choir_control.conversations.commands.context import CommandContext
from choir_control.conversations.commands.parser import target_agent
from choir_control.conversations.commands.spec import CommandCall
from choir_control.money.cost_store import CostQuery

MAX_MODELS = 8


async def show_cost(context: CommandContext, call: CommandCall) -> str:
    """Return the costs of an agent: today and this month, by model, and its limits."""
    agent_id = target_agent(call)
    costs = context.costs
    today = costs.today(agent_id)
    month = CostQuery(since=today.replace(day=1), until=today, agent_id=agent_id)
    day = CostQuery(since=today, until=today, agent_id=agent_id)
    spent_today = await costs.report("model", day)
    spent_this_month = await costs.report("model", month)
    lines = [
        _("{agent} has spent {today} today and {month} this month.").format(
            agent=agent_id,
            today=_cost(spent_today.total),
            month=_cost(spent_this_month.total),
        ),
        *(_model_line(line) for line in spent_this_month.lines[:MAX_MODELS]),
    ]
    limits = context.configuration.current.budgets_for(agent_id).money
    if limits:
        texts = (f"{name} {format_usd(limit)}" for name, limit in limits.items())
        lines.append(_("Limits: {limits}.").format(limits=", ".join(texts)))
    if unpriced := costs.unpriced():
        lines.append(_("Prices are unknown for {names}.").format(names=", ".join(unpriced)))
    return join("\n", lines)


def _model_line(line: CostLine) -> str:
    tokens = line.prompt_tokens + line.completion_tokens
    return _("- {group}: {cost} in {calls}, {tokens:,} tokens").format(
        group=line.group, cost=_cost(line), calls=_calls(line.calls), tokens=tokens
    )


def _calls(count: int) -> str:
    return ngettext("{count} call", "{count} calls", count)


def _cost(line: CostLine) -> str:
    """Return what `format_cost` returns, as a message."""
    amount = format_usd(line.cost_usd)
    if not line.unknown_calls:
        return amount
    rest = _("{calls} of unknown price ({tokens:,} tokens)").format(
        calls=_calls(line.unknown_calls), tokens=line.unknown_tokens
    )
    if line.unknown_calls == line.calls:
        return rest
    return _("{first} and {second}").format(first=amount, second=rest)
