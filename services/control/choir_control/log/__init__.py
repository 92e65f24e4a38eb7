"""The durable log and what depends on it: leases, events, signals, archiving, retention, metrics.

An append is one transaction of events, outbox rows and signals, fenced by the epoch of the session's lease.
"""
