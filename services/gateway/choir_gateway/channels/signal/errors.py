"""What the errors of signal-cli-rest-api mean: whether to try again, or why not. Pure.

Most errors are a status 400 with the sentence of signal-cli; 429 is Signal's rate limit, sometimes with a
CAPTCHA to solve.
"""

from pydantic import BaseModel, ConfigDict, ValidationError

from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.i18n import _
from choir_gateway.channels.file_transfer import RefusedError

LIMIT_PAUSE_S = 60.0
CAPTCHA_PAUSE_S = 300.0
OPERATOR_PAUSE_S = 30.0
FAILED_PAUSE_S = 15.0
BUSY_PAUSE_S = 2.0
CAPTCHA_PAGE = "https://signalcaptchas.org/challenge/generate.html"
MAX_ERROR = 300

LIMITED = ("rate limit", "ratelimit", "rate-limit", "[413]", "[429]")
UNTRUSTED = ("untrusted",)
ACCOUNT_MISSING = ("specified account does not exist", "account is not registered")
UNREGISTERED = ("unregistered user",)
TEMPORARY = ("exception", "connection", "timed out", "timeout")
NO_GROUP = ("invalid group id", "group not found", "not a group member", "not a member")
FAILED = "failed to send message"
"""signal-cli does not say why: the person is not registered, or the network failed."""


class ErrorBody(BaseModel):
    """The body of an error response."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    error: str = ""
    challenge_tokens: tuple[str, ...] = ()


class SendFailedError(Unavailable):
    """signal-cli could not send the message and does not say why; nothing was shown."""


def read_error(content: bytes) -> ErrorBody:
    """Return the error in a response; an empty one if it has another form."""
    try:
        return ErrorBody.model_validate_json(content)
    except ValidationError:
        return ErrorBody()


def interpret(status: int, body: ErrorBody, number: str) -> Exception:
    """Return the error for the outbox; `number` is the agent's own."""
    text = " ".join(body.error.split())[:MAX_ERROR]
    words = text.lower()
    if body.challenge_tokens:
        return Unavailable(describe_captcha(number, body), retry_after_s=CAPTCHA_PAUSE_S)
    if status == 429 or any(it in words for it in LIMITED):
        return Unavailable(
            _("Signal limits the rate of this account; messages wait."), retry_after_s=LIMIT_PAUSE_S
        )
    if status in (401, 403):
        return Unavailable(
            _("signal-cli-rest-api, or a proxy before it, refuses the secret of this gateway."),
            retry_after_s=OPERATOR_PAUSE_S,
        )
    if status == 413:
        return RefusedError(_("the server of signal-cli-rest-api refuses a request of this size"))
    if status in (502, 503, 504):
        return Unavailable(
            _("signal-cli-rest-api is not ready (status {status}).").format(status=status),
            retry_after_s=BUSY_PAUSE_S,
        )
    if status >= 500:
        return OutcomeUnknown(
            _("signal-cli-rest-api failed with status {status}.").format(status=status)
        )
    return _interpret_sentence(text, number)


def describe_captcha(number: str, body: ErrorBody) -> str:
    """Return what the operator has to do so that Signal accepts messages again."""
    return (
        f"Signal wants proof that a person uses {number}; messages wait. Solve the CAPTCHA at "
        f"{CAPTCHA_PAGE}, copy the address of its link, and send it with the token "
        f"{body.challenge_tokens[0]} to POST /v1/accounts/{number}/rate-limit-challenge of "
        "signal-cli-rest-api, or wait for some hours."
    )


def _interpret_sentence(text: str, number: str) -> Exception:
    words = text.lower()
    is_own_account = any(it in words for it in ACCOUNT_MISSING)
    if is_own_account or (number in words and "not registered" in words):
        return Unavailable(
            _("signal-cli has no account {number}: register or link it there.").format(
                number=number
            ),
            retry_after_s=OPERATOR_PAUSE_S,
        )
    if any(it in words for it in UNTRUSTED):
        return Unavailable(
            _(
                "The safety number of this person has changed. Check it, then trust it in signal-cli: "
                "PUT /v1/identities/{number}/trust/PERSON; messages wait."
            ).format(number=number),
            retry_after_s=OPERATOR_PAUSE_S,
        )
    if any(it in words for it in UNREGISTERED):
        return RefusedError(_("this person is not registered on Signal"), blocks_user=True)
    if any(it in words for it in NO_GROUP):
        return RefusedError(
            _("the account is not in this group, or there is no such group: {text}").format(
                text=text
            ),
            blocks_user=True,
        )
    if FAILED in words or "network failure" in words:
        return SendFailedError(
            _("signal-cli could not send the message and does not say why; nothing was shown."),
            retry_after_s=FAILED_PAUSE_S,
        )
    if not text:
        return Unavailable(
            _("The response is not one of signal-cli-rest-api; check api_url."),
            retry_after_s=OPERATOR_PAUSE_S,
        )
    if any(it in words for it in TEMPORARY):
        return OutcomeUnknown(_("signal-cli failed: {text}").format(text=text))
    return RefusedError(_("signal-cli refuses: {text}").format(text=text))
