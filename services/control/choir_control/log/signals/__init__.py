"""Signals from control to agents: a durable queue per session and per DM, streamed over SSE.

Owns the table `signals` and its streams. Does not decide what is sent. A user's message belongs to
a DM, and the session bound to that DM receives it; every other signal belongs to one session.
"""
