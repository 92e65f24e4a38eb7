"""The hash chain of the event log: linking and verifying events. Pure; no I/O.

Used by the agent's arbiter (append), by control (accept) and by `choirctl session verify`. See
docs/design/log-and-recovery.md.
"""
