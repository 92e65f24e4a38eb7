"""The log's arithmetic: how events are chained, and how a chain is checked. Pure; no I/O.

Used by the agent's arbiter (to append), by control (to accept) and by `choirctl session verify`.
"""
