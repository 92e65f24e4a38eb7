"""Command `choirctl telegram connect`.

choirctl never calls Telegram: it may run on another machine, or in a container without internet. Control asks
the gateway, which has the connection to Telegram anyway, and writes secrets.json and config.json itself.
"""

import asyncio
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from choir_common.errors import ChoirError, ErrorEnvelope, InvalidRequest, NotFound, from_envelope
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.telegram import ConnectTelegram, TelegramConnection
from choirctl.api.control import ControlClient, connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.arguments import config_name_option
from choirctl.output.language import tr
from choirctl.output.printing import escape, print_json_line, stderr_console

MAX_TOKEN_BYTES = 1_000
# The agent finishes its turn and summarizes its session before it moves.
MOVE_S = 420.0
LOOK_S = 0.3
TOKEN_FORM = _("@BotFather prints it as 123456789:AAH..., the whole of one line")

AgentOption = Annotated[
    str, config_name_option("--agent", "The agent to talk to, by its id.", "agents")
]
PersonOption = Annotated[
    str | None,
    config_name_option("--person", "Who sends the code, by name; default: an admin.", "people"),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="File with the bot's token; else it is asked for.", show_default=False),
]


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(app, "telegram", ("connect", connect_bot))


def connect_bot(
    ctx: typer.Context,
    agent: AgentOption = "main",
    person: PersonOption = None,
    token_file: TokenFile = None,
    replace_webhook: Annotated[
        bool, typer.Option("--replace-webhook", help="Remove the webhook of another program.")
    ] = False,
    api_url: Annotated[
        str | None,
        typer.Option(help="Address of a Bot API server of your own.", show_default=False),
    ] = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Connect a Telegram bot with an agent and with you.

    Create a bot with @BotFather in Telegram (/newbot); this command asks for the token it prints. Then it
    shows a code, and the first person who sends the code to the bot within ten minutes becomes its user, with
    the rights of --person or else of an admin. The agent talks on Telegram from then on. Nothing is changed
    before; Ctrl-C cancels.

    In a script, the token is read from standard input, and --json prints two lines: the code, then the
    result.
    """
    place = find_target(ctx, home, url)
    try:
        request = ConnectTelegram(
            token=_read_token(token_file),
            agent_id=agent,
            person=person,
            replace_webhook=replace_webhook,
            api_url=api_url,
        )
    except ValidationError as error:
        fields = {str(fault["loc"][0]) for fault in error.errors(include_input=False)}
        raise InvalidRequest(_explain(fields)) from None
    connection = asyncio.run(_connect(place, request, as_json))
    if as_json:
        print_json_line(connection)
    if connection.error is not None:
        raise from_envelope(
            ErrorEnvelope(code=connection.error.code, message=connection.error.message)
        )
    if not as_json:
        _print_result(connection)


async def _connect(place: Target, request: ConnectTelegram, as_json: bool) -> TelegramConnection:
    async with connect(place) as api:
        connection = await api.connect_telegram(request)
        if as_json:
            print_json_line(connection)
        else:
            _print_instructions(connection)
        try:
            return await _wait(api, connection, quiet=as_json)
        except asyncio.CancelledError:
            await _cancel(api, connection)
            raise


async def _wait(
    api: ControlClient, connection: TelegramConnection, *, quiet: bool
) -> TelegramConnection:
    """Show the progress until the bot is connected or has failed; return the last state."""
    console, wrong = stderr_console(), 0
    moving_until: float | None = None
    with console.status(_("Waiting…")) as line:
        while connection.state in ("waiting", "applying"):
            await asyncio.sleep(LOOK_S)
            connection = await api.telegram_connection(connection.connection_id)
            if connection.wrong_codes > wrong and not quiet:
                wrong = connection.wrong_codes
                console.print(_("A wrong code was sent to the bot; still waiting."), markup=False)
            line.update(escape(_status(connection)))
            if connection.state == "applying":
                moving_until = moving_until or time.monotonic() + MOVE_S
                if time.monotonic() > moving_until:
                    return connection
    return connection


def _status(connection: TelegramConnection) -> str:
    if connection.state == "applying":
        return _("{agent_id} moves to Telegram…").format(agent_id=connection.agent_id)
    seconds = max(0, int((connection.expires_at - datetime.now(UTC)).total_seconds()))
    trouble = f" {connection.trouble}" if connection.trouble else ""
    return _("Waiting for the code, {seconds}:{seconds2:02} left…{trouble}").format(
        seconds=seconds // 60, seconds2=seconds % 60, trouble=trouble
    )


async def _cancel(api: ControlClient, connection: TelegramConnection) -> None:
    """Cancel the attempt, or say that it is too late."""
    try:
        await api.cancel_telegram(connection.connection_id)
    except ChoirError as error:
        text = _(
            "Not cancelled: {message} See `choirctl config show`; `choirctl agent status "
            "{agent_id}` shows where it talks."
        ).format(message=error.message, agent_id=connection.agent_id)
    else:
        text = _("Cancelled; nothing was changed.")
    stderr_console().print(text, markup=False)


def _print_instructions(connection: TelegramConnection) -> None:
    console = stderr_console()
    for line in (
        _(
            "Write {code} to @{bot} from your Telegram account, or open this link and press Start:"
        ).format(code=connection.code, bot=connection.bot),
        f"  {connection.link}",
    ):
        console.print(line, markup=False, highlight=False)


def _print_result(connection: TelegramConnection) -> None:
    console = stderr_console()
    user = connection.user_name
    lines = [
        _(
            "Connected: {user} talks to {agent_id} through @{bot} (gateways.{gateway}, "
            "dms.{dm}, secret {secret})."
        ).format(
            user=user,
            agent_id=connection.agent_id,
            bot=connection.bot,
            gateway=connection.gateway,
            dm=connection.dm,
            secret=connection.secret,
        ),
        *connection.remaining,
        _(
            "Messages from other people are ignored. To let somebody else write to the bot, "
            "add an entry to `dms` (docs/telegram.md)."
        ),
    ]
    if not connection.remaining:
        lines.insert(
            1,
            _("{agent_id} has greeted you there. Write something.").format(
                agent_id=connection.agent_id
            ),
        )
    for line in lines:
        console.print(line, markup=False, highlight=False)


def _explain(fields: set[str]) -> str:
    if "token" in fields:
        return _("This is no token of a Telegram bot; nothing was changed. {token_form}.").format(
            token_form=TOKEN_FORM
        )
    if "api_url" in fields:
        return _("--api-url: give an address such as http://127.0.0.1:8081; nothing was changed.")
    if "person" in fields:
        return _("--person: this is no valid name of a person; nothing was changed.")
    return _("--agent: this is no valid agent id; nothing was changed.")


def _read_token(file: Path | None) -> str:
    """Return the token from the file, a prompt without echo, or standard input."""
    if file is not None:
        try:
            return file.read_text("utf-8").strip()
        except FileNotFoundError:
            raise NotFound(_("There is no {file}.").format(file=file)) from None
        except UnicodeDecodeError:
            raise InvalidRequest(
                _("{file} contains no token. {token_form}.").format(
                    file=file, token_form=TOKEN_FORM
                )
            ) from None
    if sys.stdin.isatty():
        prompt = _("Token of the bot, from @BotFather")
        answer: str = typer.prompt(tr(prompt), hide_input=True, err=True)
        return answer.strip()
    return sys.stdin.buffer.read(MAX_TOKEN_BYTES).decode("utf-8", "replace").strip()
