"""Commands `choirctl memory mode|recall`: how an agent's conversation uses memory."""

from typing import Annotated

import typer

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.wire.memory_modes import (
    INCOGNITO,
    MEMORY_MODES,
    ConversationMemory,
    RecallSetting,
)
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.arguments import AgentId
from choirctl.commands.memory_options import send
from choirctl.output.memory_views import conversation_facts
from choirctl.output.printing import print_json, stderr_console, stdout_console

RECALLS: dict[str, RecallSetting] = {"on": "on", "off": "off", "default": "default"}


def mode(
    ctx: typer.Context,
    agent: AgentId,
    new: Annotated[
        str | None,
        typer.Argument(
            metavar="MODE",
            help="Switch to local, synced, incognito or guest (the same as incognito).",
            show_default=False,
            autocompletion=lambda: list(MEMORY_MODES),
        ),
    ] = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show or switch the memory mode of an agent's conversation.

    local: sessions are remembered. synced: the same today, reserved for a remote memory. incognito: nothing
    reaches memory, and the log is erased when the session ends. A running agent starts a new session. Exits 5
    while it works.
    """
    place = find_target(ctx, home, url)
    if new is None:
        memory = send(place, agent, lambda client: client.conversation())
        _show(memory, as_json=as_json)
        return
    memory = send(place, agent, lambda client: client.set_mode(new))
    consequence = _(" Nothing said from now on is remembered.") if memory.mode == INCOGNITO else ""
    _confirm(
        memory,
        _("The conversation {dm} is in mode {mode}.{consequence}").format(
            dm=memory.dm, mode=memory.mode, consequence=consequence
        ),
        as_json,
    )


def recall(
    ctx: typer.Context,
    agent: AgentId,
    setting: Annotated[
        str,
        typer.Argument(
            metavar="SETTING",
            help="on, off, or default: as agents.NAME.recall in config.json says.",
            autocompletion=lambda: list(RECALLS),
        ),
    ],
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Switch whether an agent is shown memories in its conversation.

    With recall off there are no reminders and no hints, and the agent cannot search its memory. Sessions are
    still remembered.
    """
    choice = RECALLS.get(setting.lower())
    if choice is None:
        raise InvalidRequest(
            _("SETTING is {names}, not {setting!r}.").format(
                names=", ".join(RECALLS), setting=setting[:20]
            )
        )
    memory = send(find_target(ctx, home, url), agent, lambda client: client.set_recall(choice))
    _confirm(
        memory,
        _("Recall is {value} in {dm}.").format(
            value=_("on") if memory.recall else _("off"), dm=memory.dm
        ),
        as_json,
    )


def _confirm(memory: ConversationMemory, sentence: str, as_json: bool) -> None:
    if as_json:
        print_json(memory)
    else:
        stderr_console().print(sentence, markup=False)


def _show(memory: ConversationMemory, *, as_json: bool) -> None:
    if as_json:
        print_json(memory)
    else:
        stdout_console().print(conversation_facts(memory))
