"""Replication of the log to control, eager and in order; reports which events are durable.

See docs/design/log-and-recovery.md.
"""
