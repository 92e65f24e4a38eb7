"""Faults that every fake messenger can script for calls of its API; the server applies one per call."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DisconnectBefore:
    """Cut the connection without running the call."""


@dataclass(frozen=True, slots=True)
class DisconnectAfter:
    """Run the call, then cut the connection before the response: the outcome is unknown."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Respond normally, but only after `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class NoFault:
    """Respond normally, so that a script can fail the third call and not the first two."""
