"""The rows of `choirctl telegram` in the command table."""

from choir_control.conversations.commands.spec import CommandScope, CommandSpec

_ROUTE = "/v1/telegram/connections"

TELEGRAM_COMMANDS = (
    CommandSpec(
        "Connect a Telegram bot with an agent and with you.",
        CommandScope.OPERATOR,
        choirctl="telegram connect",
        route=f"POST {_ROUTE}",
    ),
    CommandSpec("List the attempts to connect bots.", CommandScope.OPERATOR, route=f"GET {_ROUTE}"),
    CommandSpec(
        "Show whether a bot is connected.",
        CommandScope.OPERATOR,
        route=f"GET {_ROUTE}/{{connection_id}}",
    ),
    CommandSpec(
        "Stop waiting for a bot's code.",
        CommandScope.OPERATOR,
        route=f"DELETE {_ROUTE}/{{connection_id}}",
    ),
)
