"""The rows about the web page and about clients of the OpenAI-compatible API in the command table."""

from choir_control.conversations.commands.spec import CommandScope, CommandSpec

_SESSION = "/v1/web/session"

WEB_COMMANDS = (
    CommandSpec(
        "Create a one-time link to the web page.",
        CommandScope.OPERATOR,
        choirctl="web link",
        route="POST /v1/web/links",
    ),
    CommandSpec(
        "List the browsers that are signed in.",
        CommandScope.OPERATOR,
        choirctl="web sessions",
        route="GET /v1/web/sessions",
    ),
    CommandSpec(
        "Sign a browser out.",
        CommandScope.OPERATOR,
        choirctl="web revoke",
        route="DELETE /v1/web/sessions/{web_session_id}",
    ),
    CommandSpec(
        "Give a program a token for the OpenAI-compatible API.",
        CommandScope.OPERATOR,
        choirctl="client add",
        route="POST /v1/clients",
    ),
    CommandSpec(
        "List the programs with such a token.",
        CommandScope.OPERATOR,
        choirctl="client list",
        route="GET /v1/clients",
    ),
    CommandSpec(
        "Take a program's token back.",
        CommandScope.OPERATOR,
        choirctl="client revoke",
        route="DELETE /v1/clients/{name}",
    ),
    CommandSpec("Sign in.", CommandScope.OPERATOR, route=f"POST {_SESSION}"),
    CommandSpec("Show who is signed in.", CommandScope.OPERATOR, route=f"GET {_SESSION}"),
    CommandSpec("Sign out.", CommandScope.OPERATOR, route=f"DELETE {_SESSION}"),
    CommandSpec(
        "Translate what the page shows of services.",
        CommandScope.OPERATOR,
        route=f"POST {_SESSION}/sentences",
    ),
    CommandSpec(
        "Show whether this browser gets notifications.",
        CommandScope.OPERATOR,
        route=f"GET {_SESSION}/push",
    ),
    CommandSpec(
        "Send notifications to this browser.", CommandScope.OPERATOR, route=f"PUT {_SESSION}/push"
    ),
    CommandSpec(
        "Send no more notifications to this browser.",
        CommandScope.OPERATOR,
        route=f"DELETE {_SESSION}/push",
    ),
    CommandSpec(
        "Report that a page is in view, or no longer.",
        CommandScope.OPERATOR,
        route=f"PUT {_SESSION}/presence",
    ),
    CommandSpec(
        "Read both sides of a conversation.",
        CommandScope.OPERATOR,
        route="GET /v1/dms/{dm}/history",
    ),
    CommandSpec(
        "Download a file that the user uploaded.",
        CommandScope.OPERATOR,
        route="GET /v1/dms/{dm}/files/{token}",
    ),
)
