"""Slack's error codes: what they mean for a delivery, and what an operator can do about them. Pure."""

from choir_common.errors import ChoirError, OutcomeUnknown, Unavailable
from choir_common.i18n import _
from choir_common.wire.model import JsonObject
from choir_gateway.channels.file_transfer import RefusedError

THEN_SET_IT = _("then `choirctl secret set` it and `choirctl secret apply`")
# The operator can correct these, and messages wait for that.
ACCESS_TEXTS = {
    "invalid_auth": _(
        "Slack refuses the token. Copy it again from the app's settings, {then_set_it}."
    ).format(then_set_it=THEN_SET_IT),
    "not_authed": _("Slack received no token: `choirctl secret set` it, {then_set_it}.").format(
        then_set_it=THEN_SET_IT
    ),
    "account_inactive": _(
        "The app was removed from the workspace. Install it again, {then_set_it}."
    ).format(then_set_it=THEN_SET_IT),
    "token_revoked": _("The token was revoked. Install the app again, {then_set_it}.").format(
        then_set_it=THEN_SET_IT
    ),
    "token_expired": _(
        "The token has expired. Switch off token rotation, install it again, {then_set_it}."
    ).format(then_set_it=THEN_SET_IT),
    "not_allowed_token_type": (
        _(
            "The token is of the wrong kind: `secret` names the bot token (xoxb-), `app_secret` the "
            "app-level token (xapp-)."
        )
    ),
    "messages_tab_disabled": (
        _(
            "The app's Messages tab is off. Switch it on in the app's settings under App Home, with "
            "messages from users allowed."
        )
    ),
    "link_disabled": _("Socket Mode is off. Switch it on in the app's settings under Socket Mode."),
    "access_denied": _(
        "Slack denies the app access; an admin of the workspace may have to approve it."
    ),
    "team_access_not_granted": _("The app is not approved for this workspace; ask its admin."),
    "org_login_required": _(
        "The workspace is being moved to an organization; Slack accepts no calls."
    ),
}
TEMPORARY = frozenset(
    {"ratelimited", "rate_limited", "service_unavailable", "request_timeout", "team_added_to_org"}
)
# Slack documents that a part of the call may have succeeded.
UNKNOWN_OUTCOME = frozenset({"fatal_error", "internal_error"})
USER_ERRORS = frozenset(
    {
        *(
            "channel_not_found",
            "user_not_found",
            "users_not_found",
            "user_disabled",
            "user_not_visible",
        ),
        *("cannot_dm_bot", "is_archived", "not_in_channel", "restricted_action", "invalid_user"),
        *("user_is_restricted", "cannot_message_user", "team_not_found"),
    }
)


class SlackAccessError(Unavailable):
    """Slack does not let the app in; an operator can correct that."""


class SlackScopeError(SlackAccessError):
    """The app lacks a permission for a method."""


class SlackRefusedError(RefusedError):
    """A permanent refusal by Slack, with its error code."""

    def __init__(self, text: str, *, code: str = "", blocks_user: bool = False) -> None:
        super().__init__(text, blocks_user=blocks_user)
        self.code = code


def explain_refusal(body: JsonObject) -> ChoirError | SlackRefusedError:
    """Return the error for a response with `ok: false`."""
    code = str(body.get("error") or "unknown_error")
    if code == "missing_scope":
        return SlackScopeError(
            _(
                "The app lacks the permission {scope}. Add it in the app's settings under OAuth & "
                "Permissions, then install the app again."
            ).format(scope=body.get("needed"))
        )
    if code in ACCESS_TEXTS:
        return SlackAccessError(ACCESS_TEXTS[code])
    if code in UNKNOWN_OUTCOME:
        return OutcomeUnknown(_("Slack failed: {code}.").format(code=code))
    if code in TEMPORARY:
        return Unavailable(_("Slack refuses temporarily: {code}.").format(code=code))
    return SlackRefusedError(
        _("Slack refuses: {code}").format(code=code), code=code, blocks_user=code in USER_ERRORS
    )
