"""The rows about people in the command table."""

from choir_common.i18n import _
from choir_control.conversations.commands import people
from choir_control.conversations.commands.spec import (
    CommandArgument,
    CommandScope,
    CommandSpec,
    MutationAction,
)

_ROUTE = "/v1/people"

PEOPLE_COMMANDS = (
    CommandSpec(
        _("Get a code for your other conversation, or type its code here: both are then yours."),
        typed_form="/link",
        arguments=(CommandArgument("code"),),
        action=MutationAction(people.link),
        choirctl="person link",
        route=f"POST {_ROUTE}/{{name}}/identities",
    ),
    CommandSpec(
        _(
            "Show whether the answers in your other conversations also arrive here; `on` or `off` "
            "switches it."
        ),
        typed_form="/follow",
        arguments=(CommandArgument("choice"),),
        action=MutationAction(people.follow),
    ),
    CommandSpec(
        _(
            "Show the language of Choir's own messages to you, or change it; `auto` is that of your "
            "app or of the configuration."
        ),
        typed_form="/language",
        arguments=(CommandArgument("language"),),
        action=MutationAction(people.choose_language),
    ),
    CommandSpec(
        _("List the unknown users who want to talk, or allow one by the code."),
        CommandScope.ADMIN,
        typed_form="/pair",
        arguments=(CommandArgument("code"),),
        action=MutationAction(people.pair),
        choirctl="person pair",
        route=f"POST {_ROUTE}/pairings",
    ),
    CommandSpec(
        _("Refuse an unknown user who wants to talk."),
        CommandScope.ADMIN,
        typed_form="/pair deny",
        arguments=(CommandArgument("code", required=True),),
        action=MutationAction(people.refuse_pairing),
    ),
    CommandSpec(
        _("Take the conversation of a paired user back."),
        CommandScope.ADMIN,
        typed_form="/unpair",
        arguments=(CommandArgument("conversation", required=True),),
        action=MutationAction(people.unpair),
        choirctl="person unpair",
        route=f"DELETE {_ROUTE}/pairings/{{dm}}",
    ),
    CommandSpec(
        "List the unknown users who want to talk.",
        CommandScope.OPERATOR,
        choirctl="person pair",
        route=f"GET {_ROUTE}/pairings",
    ),
    CommandSpec(
        "List the people of config.json.",
        CommandScope.OPERATOR,
        choirctl="person list",
        route=f"GET {_ROUTE}",
    ),
    CommandSpec(
        "Show a person and the person's identities.",
        CommandScope.OPERATOR,
        choirctl="person show",
        route=f"GET {_ROUTE}/{{name}}",
    ),
    CommandSpec(
        "Take a linked identity from a person.",
        CommandScope.OPERATOR,
        choirctl="person unlink",
        route=f"DELETE {_ROUTE}/{{name}}/identities/{{gateway}}/{{user}}",
    ),
)
