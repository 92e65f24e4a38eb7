"""The rows of the command table about what is connected: Telegram bots, hooks and triggers."""

from choir_control.conversations.commands.spec import CommandScope, CommandSpec

_ROUTE = "/v1/telegram/connections"

CONNECTION_COMMANDS = (
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
    CommandSpec(
        "Show incoming webhooks, what waits and what was refused.",
        CommandScope.OPERATOR,
        choirctl="hook list",
        route="GET /v1/hooks",
    ),
    CommandSpec(
        "Show what an agent would read of a hook's body.",
        CommandScope.OPERATOR,
        choirctl="hook test",
        route="POST /v1/hooks/{name}/test",
    ),
    CommandSpec(
        "List what arrived through a hook.",
        CommandScope.OPERATOR,
        choirctl="hook deliveries",
        route="GET /v1/hooks/{name}/deliveries",
    ),
    CommandSpec(
        "Send a signed request to a hook.",
        CommandScope.OPERATOR,
        route="POST /v1/hooks/{name}",
    ),
    CommandSpec(
        "Show watched folders and mail that starts work.",
        CommandScope.OPERATOR,
        choirctl="trigger list",
        route="GET /v1/triggers",
    ),
    CommandSpec(
        "List what arrived through a watched folder or by mail.",
        CommandScope.OPERATOR,
        choirctl="trigger deliveries",
        route="GET /v1/triggers/{name}/deliveries",
    ),
)
