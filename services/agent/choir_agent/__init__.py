"""Agent runtime of Choir: one process that runs one session of one agent.

Owns the lanes, the arbiter and its event log, the locks, the tools, the model client and the working
memory. Never connects to Postgres, NATS, Docker or another service: its only peer is control's endpoint.
"""
