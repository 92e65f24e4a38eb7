"""The command `/cost`: what the conversation's agent has spent, and what is left of its budgets."""

from choir_common.wire.money import CostLine
from choir_common.wire.money_text import format_calls, format_cost, format_usd
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
        f"{agent_id} has spent {format_cost(spent_today.total)} today and "
        f"{format_cost(spent_this_month.total)} this month.",
        *(_model_line(line) for line in spent_this_month.lines[:MAX_MODELS]),
    ]
    limits = context.configuration.current.budgets_for(agent_id).money
    if limits:
        texts = (f"{name} {format_usd(limit)}" for name, limit in limits.items())
        lines.append(f"Limits: {', '.join(texts)}.")
    if unpriced := costs.unpriced():
        lines.append(f"Prices are unknown for {', '.join(unpriced)}.")
    return "\n".join(lines)


def _model_line(line: CostLine) -> str:
    tokens = line.prompt_tokens + line.completion_tokens
    return f"- {line.group}: {format_cost(line)} in {format_calls(line.calls)}, {tokens:,} tokens"
