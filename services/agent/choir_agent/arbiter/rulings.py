"""What the arbiter can say to a proposed call: a closed union."""

from dataclasses import dataclass

from choir_agent.locks.claim import Claim, Lockset
from choir_agent.tools.tool import Tool
from choir_common.wire.json import JsonObject


@dataclass(frozen=True, slots=True)
class Permit:
    """A valid call: its tool, checked arguments, canonical path and the locks it needs."""

    tool: Tool
    arguments: JsonObject
    path: str
    locks: Lockset


@dataclass(frozen=True, slots=True)
class Run:
    """It may run now."""

    permit: Permit


@dataclass(frozen=True, slots=True)
class Wait:
    """It may run once those before it are done."""

    permit: Permit
    behind: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """A human decides first."""

    permit: Permit


@dataclass(frozen=True, slots=True)
class Refuse:
    """It may not run; the model is told why."""

    arguments: JsonObject
    error: JsonObject


Ruling = Run | Wait | Ask | Refuse
