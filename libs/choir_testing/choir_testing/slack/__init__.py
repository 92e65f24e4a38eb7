"""Fake Slack for tests: Web API and Socket Mode over real HTTP and WebSocket, with scriptable users.

Follows https://docs.slack.dev and refuses what it refuses, also arguments that a method does not document.
Direct messages, channels and their threads. It never contacts slack.com and imports no Slack library, so
that it is an independent test of ours.
"""

from choir_testing.slack.accounts import FakeApp, FakeMessage, FakePerson
from choir_testing.slack.faults import (
    Delay,
    DisconnectAfter,
    DisconnectBefore,
    ErrorCode,
    HttpError,
    NoFault,
    TooManyRequests,
)
from choir_testing.slack.room import FakeSlackRoom
from choir_testing.slack.server import FakeSlack, run_fake_slack
from choir_testing.slack.user import FakeSlackUser

__all__ = [
    "Delay",
    "DisconnectAfter",
    "DisconnectBefore",
    "ErrorCode",
    "FakeApp",
    "FakeMessage",
    "FakePerson",
    "FakeSlack",
    "FakeSlackRoom",
    "FakeSlackUser",
    "HttpError",
    "NoFault",
    "TooManyRequests",
    "run_fake_slack",
]
