"""The commands `/link`, for the same person on another channel, and `/pair`, for unknown users."""

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_control.conversations.commands.context import CommandContext
from choir_control.conversations.commands.spec import CommandCall
from choir_control.conversations.pairing.texts import (
    format_decision,
    format_removal,
    format_waiting,
)


async def link(context: CommandContext, call: CommandCall) -> str:
    """Return a code, or use the one that was typed."""
    code = call.arguments.get("code")
    if code is None:
        new_code = context.people.create_code(call.dm)
        return _(
            "Type this in your other conversation within ten minutes: /link {code}. It works "
            "once. It gives your rights to the user who types it, so show it to nobody."
        ).format(code=new_code)
    person = await context.people.redeem_code(call.dm, code)
    return _("This conversation is now {name}'s, with the role {role}.").format(
        name=person.name, role=person.role
    )


async def follow(context: CommandContext, call: CommandCall) -> str:
    """Say whether this conversation follows the person's other ones, or switch it."""
    choice = call.arguments.get("choice", "").lower()
    if choice not in ("", "on", "off"):
        raise InvalidRequest(
            _("{choice!r} is neither on nor off. Nothing was changed.").format(choice=choice[:20])
        )
    if choice:
        await context.following.switch(call.dm, on=choice == "on")
    if context.following.is_on(call.dm):
        return _(
            "Answers in your other private conversations with this agent also arrive here. /follow "
            "off ends it."
        )
    return _(
        "Only what belongs to this conversation arrives here. /follow on adds your other ones."
    )


async def pair(context: CommandContext, call: CommandCall) -> str:
    """List who waits, or allow the user of the code that was typed."""
    code = call.arguments.get("code")
    if code is None:
        return format_waiting(await context.pairing.list_waiting())
    view = await context.pairing.decide(code, allow=True, by=call.decided_by)
    return format_decision(view, is_allowed=True)


async def refuse_pairing(context: CommandContext, call: CommandCall) -> str:
    """Refuse the user of a code."""
    view = await context.pairing.decide(call.arguments["code"], allow=False, by=call.decided_by)
    return format_decision(view, is_allowed=False)


async def unpair(context: CommandContext, call: CommandCall) -> str:
    """Take the conversation of a paired user back."""
    dm = call.arguments["conversation"]
    return format_removal(await context.pairing.unpair(dm, by=call.decided_by))
