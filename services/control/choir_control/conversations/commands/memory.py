"""Commands that show and switch how a conversation uses memory: `/memory` and `/recall`."""

from typing import get_args

from choir_common.errors import InvalidRequest
from choir_common.i18n import _, join
from choir_common.wire.memory_modes import INCOGNITO, ConversationMemory, RecallSetting
from choir_control.agents.sessions.memory_modes import format_memory, parse_mode
from choir_control.conversations.commands.context import CommandContext
from choir_control.conversations.commands.parser import result_recipient
from choir_control.conversations.commands.spec import CommandCall

MODES_HINT = _("Modes: /memory local, /memory synced, /memory incognito.")
RECALLS: tuple[RecallSetting, ...] = get_args(RecallSetting)


async def show_memory(context: CommandContext, call: CommandCall) -> str:
    """Return the memory mode and recall of the conversation."""
    memory = await context.memory_modes.show(call.dm, call.bound_agent_id)
    return join(" ", (format_memory(memory), MODES_HINT))


async def set_memory_mode(context: CommandContext, call: CommandCall) -> str:
    """Switch the memory mode of the conversation, by ending its session and starting the next one."""
    mode = parse_mode(call.arguments["mode"])

    async def switch() -> str:
        return format_switch(
            await context.memory_modes.set_mode(call.dm, mode, call.bound_agent_id)
        )

    result = await context.background.run(
        result_recipient(context, call), "memory mode", call.bound_agent_id or call.dm, switch
    )
    return result or (
        _(
            "{agent} writes a summary and starts again in mode {mode}. Wait for the "
            "result, which will be reported here: until then what you write may belong to the old "
            "mode."
        ).format(agent=call.bound_agent_id, mode=mode)
    )


async def set_recall(context: CommandContext, call: CommandCall) -> str:
    """Switch recall for the conversation."""
    name = call.arguments["setting"].lower()
    if name not in RECALLS:
        raise InvalidRequest(
            _(
                "{name!r} is no setting of recall; the settings are {recalls}. Nothing was changed."
            ).format(name=name[:20], recalls=", ".join(RECALLS))
        )
    memory = await context.memory_modes.set_recall(call.dm, name, call.bound_agent_id)
    if memory.mode == INCOGNITO:
        return _(
            "Recall is stored for the time after incognito; an incognito conversation never reads "
            "memory."
        )
    return format_memory(memory)


def format_switch(memory: ConversationMemory) -> str:
    """Return the text about a switched mode."""
    line = format_memory(memory)
    if memory.mode != INCOGNITO:
        after = _("What was said before stays as it was; nothing said incognito is continued.")
    else:
        after = _("What was said before stays as it was. /memory local ends it.")
    return join(" ", (line, after))
