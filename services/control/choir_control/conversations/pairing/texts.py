"""What users and admins read about pairing. Names that strangers chose are cleaned and quoted."""

from collections.abc import Sequence

from choir_common.wire.pairing import PairingView
from choir_control.configuration.pairing import PairedUser
from choir_control.conversations.pairing.codes import WaitingUser, format_code

OFFER = (
    "I do not know you yet. Give this code to the person who runs this bot: {code}. After that person has "
    "allowed it, you can write to me. The code is valid for one hour."
)
WELCOME = "You can now talk with {agent}; write anything. /help lists the commands."
WARNING = (
    "Allow it only if you know who gave you this code: users choose their names themselves, and the agent "
    "may repeat to this user what it knows."
)


def describe_user(gateway: str, user_id: str, user_name: str) -> str:
    """Return who a user says to be, in one line."""
    name = f'"{user_name}", ' if user_name else ""
    return f"{name}user {user_id} of {gateway}"


def format_request(user: WaitingUser, agent_id: str, role: str) -> str:
    """Return the notice to an admin."""
    who = describe_user(user.gateway, user.user_id, user.user_name)
    code = format_code(user.code)
    return (
        f"Somebody wants to talk with {agent_id} as a {role}: {who}, code {code}. {WARNING}\n"
        f"/pair {code} allows it, /pair deny {code} refuses it."
    )


def format_waiting(views: Sequence[PairingView]) -> str:
    """Return the list of users who wait."""
    if not views:
        return "Nobody waits for a decision."
    lines = [
        f"{it.code}: {describe_user(it.gateway, it.user, it.user_name)}; would talk with {it.agent} as a "
        f"{it.role}"
        for it in views
    ]
    return "\n".join([*lines, WARNING, "/pair CODE allows it, /pair deny CODE refuses it."])


def format_decision(view: PairingView, *, is_allowed: bool) -> str:
    """Return what was decided."""
    who = describe_user(view.gateway, view.user, view.user_name)
    if not is_allowed:
        return f"Refused: {who}. The user is told nothing."
    return (
        f"Allowed: {who} can talk with {view.agent} as a {view.role}, in the conversation {view.dm}. "
        f"`choirctl person unpair {view.dm}` takes it back."
    )


def format_removal(user: PairedUser) -> str:
    """Return whose conversation was taken back."""
    return (
        f"{describe_user(user.gateway, user.user_id, user.user_name)} has no conversation any more."
    )
