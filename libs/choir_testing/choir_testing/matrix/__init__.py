"""Fake Matrix homeserver for tests: the client-server API over real HTTP, with scriptable users.

Follows https://spec.matrix.org/latest/client-server-api/ and refuses what it refuses. It never contacts
another server and imports no Matrix library, so that it is an independent test of our client.
"""

from choir_testing.matrix.accounts import FakeAccount
from choir_testing.matrix.faults import (
    Delay,
    DisconnectAfter,
    DisconnectBefore,
    ErrorResponse,
    NoFault,
    TooManyRequests,
)
from choir_testing.matrix.rooms import FakeEvent, FakeRoom
from choir_testing.matrix.server import FakeMatrix, run_fake_matrix
from choir_testing.matrix.user import FakeMatrixUser, ShownEvent

__all__ = [
    "Delay",
    "DisconnectAfter",
    "DisconnectBefore",
    "ErrorResponse",
    "FakeAccount",
    "FakeEvent",
    "FakeMatrix",
    "FakeMatrixUser",
    "FakeRoom",
    "NoFault",
    "ShownEvent",
    "TooManyRequests",
    "run_fake_matrix",
]
