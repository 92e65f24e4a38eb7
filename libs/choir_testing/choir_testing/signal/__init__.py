"""Fake of signal-cli-rest-api in its json-rpc mode: a strict REST API, and a WebSocket that repeats nothing.

Written from its source and that of signal-cli. What neither documents is refused.
"""

from choir_testing.signal.server import FakeSignal as FakeSignal
from choir_testing.signal.server import run_fake_signal as run_fake_signal
from choir_testing.signal.user import FakeSignalUser as FakeSignalUser
