"""Possible rulings of the arbiter on a proposed call: a closed union."""

from dataclasses import dataclass

from choir_agent.locks.claim import Claim, Lockset
from choir_agent.tools.tool import Tool
from choir_common.wire.json import JsonObject


@dataclass(frozen=True, slots=True)
class Permit:
    """A valid call: its tool, checked arguments, canonical path and required locks."""

    tool: Tool
    arguments: JsonObject
    path: str
    locks: Lockset


@dataclass(frozen=True, slots=True)
class Run:
    """The call may run now."""

    permit: Permit


@dataclass(frozen=True, slots=True)
class Wait:
    """The call may run after the claims in `behind`."""

    permit: Permit
    behind: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """The call needs a human's approval."""

    permit: Permit


@dataclass(frozen=True, slots=True)
class Refuse:
    """The call may not run; the model receives the error."""

    arguments: JsonObject
    error: JsonObject


Ruling = Run | Wait | Ask | Refuse
