"""Commands of people about themselves (`/link`, `/follow`, `/language`), and `/pair` for unknown users."""

from choir_common.errors import Forbidden, InvalidRequest
from choir_common.i18n import LANGUAGE_NAMES, _, choose_tag
from choir_control.conversations.commands.context import CommandContext
from choir_control.conversations.commands.spec import CommandCall
from choir_control.conversations.pairing.texts import (
    format_decision,
    format_removal,
    format_waiting,
)

AUTOMATIC = "auto"


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


async def choose_language(context: CommandContext, call: CommandCall) -> str:
    """Say in which language Choir talks to this person, or change it."""
    typed = call.arguments.get("language", "").lower()
    people = context.configuration.current.people
    if typed:
        if people.is_group(call.dm) and call.rank != "admin":
            raise Forbidden(
                _("Only an admin changes the language of a group. Nothing was changed.")
            )
        await context.languages.choose(call.dm, _language_tag(typed))
    language = context.configuration.current.people.language_in(call.dm)
    return _(
        "Choir's own messages to you are in {name}. There are: {languages}. /language auto follows your "
        "app or the configuration."
    ).format(
        name=LANGUAGE_NAMES[language],
        languages=", ".join(f"{tag} ({name})" for tag, name in LANGUAGE_NAMES.items()),
    )


def _language_tag(typed: str) -> str:
    """Return the tag of a language by its tag or name, or an empty text for `auto`."""
    if typed == AUTOMATIC:
        return ""
    tags = {name.lower(): tag for tag, name in LANGUAGE_NAMES.items()}
    tag = tags.get(typed) or choose_tag(typed)
    if tag is None:
        raise InvalidRequest(
            _("Choir has no translation into {language!r}. Nothing was changed.").format(
                language=typed[:20]
            )
        )
    return tag


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
