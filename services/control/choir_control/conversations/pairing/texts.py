"""What users and admins read about pairing. Names that strangers chose are cleaned and quoted."""

from collections.abc import Sequence

from choir_common.i18n import _, join
from choir_common.wire.pairing import PairingView
from choir_control.configuration.pairing import PairedUser
from choir_control.conversations.pairing.codes import WaitingUser, format_code

ROLES = {"member": _("member"), "guest": _("guest")}
OFFER = _(
    "I do not know you yet. Give this code to the person who runs this bot: {code}. After "
    "that person has allowed it, you can write to me. The code is valid for one hour."
)
WELCOME = _("You can now talk with {agent}; write anything. /help lists the commands.")
WARNING = _(
    "Allow it only if you know who gave you this code: users choose their names "
    "themselves, and the agent may repeat to this user what it knows."
)


def _role(role: str) -> str:
    return ROLES.get(role, role)


def describe_user(gateway: str, user_id: str, user_name: str) -> str:
    """Return who a user says to be, in one line."""
    user = _("user {user_id} of {gateway}").format(user_id=user_id, gateway=gateway)
    return join("", (f'"{user_name}", ', user)) if user_name else user


def format_request(user: WaitingUser, agent_id: str, role: str) -> str:
    """Return the notice to an admin."""
    who = describe_user(user.gateway, user.user_id, user.user_name)
    code = format_code(user.code)
    first = _("Somebody wants to talk with {agent} as a {role}: {who}, code {code}.").format(
        agent=agent_id, role=_role(role), who=who, code=code
    )
    how = _("/pair {code} allows it, /pair deny {code} refuses it.").format(code=code)
    return join("\n", (join(" ", (first, WARNING)), how))


def format_waiting(views: Sequence[PairingView]) -> str:
    """Return the list of users who wait."""
    if not views:
        return _("Nobody waits for a decision.")
    lines = [
        _("{code}: {user}; would talk with {agent} as a {role}").format(
            code=it.code,
            user=describe_user(it.gateway, it.user, it.user_name),
            agent=it.agent,
            role=_role(it.role),
        )
        for it in views
    ]
    return join(
        "\n",
        [
            *lines,
            WARNING,
            _("/pair {code} allows it, /pair deny {code} refuses it.").format(code="CODE"),
        ],
    )


def format_decision(view: PairingView, *, is_allowed: bool) -> str:
    """Return what was decided."""
    who = describe_user(view.gateway, view.user, view.user_name)
    if not is_allowed:
        return _("Refused: {who}. The user is told nothing.").format(who=who)
    return _(
        "Allowed: {who} can talk with {agent} as a {role}, in the conversation {dm}. `choirctl "
        "person unpair {dm}` takes it back."
    ).format(who=who, agent=view.agent, role=_role(view.role), dm=view.dm)


def format_removal(user: PairedUser) -> str:
    """Return whose conversation was taken back."""
    return _("{user} has no conversation any more.").format(
        user=describe_user(user.gateway, user.user_id, user.user_name)
    )
