"""The account of a bot with its devices, files and scripted faults."""

from dataclasses import dataclass, field
from itertools import count

from choir_common.wire.model import JsonObject
from choir_testing.matrix.faults import ApiError, Fault

_devices = count(1)


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A call that the bot made."""

    method: str
    route: str
    body: JsonObject


@dataclass(frozen=True, slots=True)
class FakeMedia:
    """An uploaded file."""

    name: str
    mime: str
    content: bytes


@dataclass(slots=True)
class FakeAccount:
    """A bot's account; each token belongs to a device."""

    user_id: str
    devices: dict[str, str] = field(default_factory=dict)
    """Device ids by token."""
    calls: list[ApiCall] = field(default_factory=list)
    scripts: dict[str, list[Fault]] = field(default_factory=dict)
    transactions: dict[tuple[str, str], JsonObject] = field(default_factory=dict)
    """Responses by device and path."""
    receipts: dict[str, str] = field(default_factory=dict)
    """The event that the bot has read, by room."""
    read_position: int = 0
    """The bot has handled everything up to this position of /sync."""
    sends_before_limit: int | None = None
    """How many more events are accepted before a rate limit; None: all."""

    def log_in(self, token: str) -> None:
        """Add a device with a token."""
        self.devices[token] = f"DEVICE{next(_devices)}"

    def log_out(self, token: str) -> None:
        """Remove a device: its token is refused from now on."""
        del self.devices[token]

    def next_fault(self, route: str) -> Fault | None:
        """Return the next scripted fault of a route."""
        faults = self.scripts.get(route)
        return faults.pop(0) if faults else None

    def count_calls(self, route: str) -> int:
        """Return how often a route was called."""
        return sum(f"{call.method} {call.route}" == route for call in self.calls)

    def count_send(self) -> None:
        """Count an event. Raises ApiError 429 above the limit."""
        if self.sends_before_limit is None:
            return
        if self.sends_before_limit == 0:
            self.sends_before_limit = None
            raise ApiError(429, "M_LIMIT_EXCEEDED", "Too Many Requests", retry_after_ms=200)
        self.sends_before_limit -= 1
