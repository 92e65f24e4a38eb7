"""The error hierarchy of Choir. Each HTTP route, bus endpoint and command renders it in its own format.

  ChoirError                     500 internal
  ├── InvalidRequest             400 bad_input          the caller must change the request
  ├── Unauthorized               401 unauthorized       no or wrong token
  ├── Forbidden                  403 forbidden          known, but not allowed
  ├── NotFound                   404 not_found
  ├── Conflict                   409 conflict           the state does not allow it
  │   └── Fenced                 409 fenced             an old epoch or a fork: the agent must stop
  ├── TooLarge                   413 too_large
  ├── RequestTimeout             408 too_slow           the request did not arrive in time
  ├── RateLimited                429 rate_limited       retry after `retry_after_s`
  ├── Unavailable                503 unavailable        a dependency is down: nothing happened, retry
  │   └── OutcomeUnknown         503 outcome_unknown    it may have happened: retry with the same key
  ├── DeadlineExceeded           504 deadline_exceeded
  └── StartupError               exit 1 startup         the process cannot start; one paragraph of text

The class docstring is the default message. HTTP renders RFC 9457 problem documents, the bus an envelope,
and the CLI a paragraph and an exit code. All of them read `code`, `status` and `exit_code` from here.
"""

from pydantic import BaseModel, ConfigDict


class ErrorEnvelope(BaseModel):
    """An error as it crosses a process boundary: no internals, no traceback."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: str
    message: str
    retry_after_s: float | None = None


class ChoirError(Exception):
    """Internal error in Choir; see the log of the service that responded."""

    code = "internal"
    status = 500
    exit_code = 1

    def __init__(self, message: str | None = None, *, retry_after_s: float | None = None) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.retry_after_s = retry_after_s
        super().__init__(self.message)

    def envelope(self) -> ErrorEnvelope:
        """Return the part of the error that may leave the process."""
        return ErrorEnvelope(code=self.code, message=self.message, retry_after_s=self.retry_after_s)


class InvalidRequest(ChoirError):
    """The request is not valid."""

    code, status, exit_code = "bad_input", 400, 2


class Unauthorized(ChoirError):
    """A valid token is needed."""

    code, status, exit_code = "unauthorized", 401, 4


class Forbidden(ChoirError):
    """This caller is not allowed to do that."""

    code, status, exit_code = "forbidden", 403, 4


class NotFound(ChoirError):
    """There is no such object."""

    code, status, exit_code = "not_found", 404, 3


class Conflict(ChoirError):
    """The current state does not allow that."""

    code, status, exit_code = "conflict", 409, 5


class Fenced(Conflict):
    """Another epoch of this session has taken over, or the logs differ; this agent must stop."""

    code = "fenced"


class TooLarge(ChoirError):
    """The request is larger than this service accepts."""

    code, status, exit_code = "too_large", 413, 2


class RequestTimeout(ChoirError):
    """The request did not arrive in time; send the whole request again."""

    code, status, exit_code = "too_slow", 408, 6


class RateLimited(ChoirError):
    """Too many requests; wait before trying again."""

    code, status, exit_code = "rate_limited", 429, 6


class Unavailable(ChoirError):
    """A required component is unavailable; nothing was changed, try again."""

    code, status, exit_code = "unavailable", 503, 6


class NotRunning(Unavailable):
    """No process of a service responds; it may be restarting, or not be part of this deployment."""


class OutcomeUnknown(Unavailable):
    """The connection broke during the request, which may have succeeded: retry it under the same key."""

    code = "outcome_unknown"


class DeadlineExceeded(ChoirError):
    """No response within the deadline."""

    code, status, exit_code = "deadline_exceeded", 504, 6


class StartupError(ChoirError):
    """This process cannot start."""

    code, status, exit_code = "startup", 500, 1


def _subclasses(of: type[ChoirError]) -> list[type[ChoirError]]:
    return [of, *(deep for sub in of.__subclasses__() for deep in _subclasses(sub))]


def from_envelope(envelope: ErrorEnvelope) -> ChoirError:
    """Rebuild the error from its envelope; an unknown code becomes a `ChoirError`."""
    for kind in _subclasses(ChoirError):
        if kind.code == envelope.code:
            return kind(envelope.message, retry_after_s=envelope.retry_after_s)
    return ChoirError(f"{envelope.code}: {envelope.message}")
