"""Clients of other services: a Protocol per service and its implementation over NATS or HTTP.

Each Protocol also has a fake with in-memory state that passes the same contract suite (tests/contract).
"""
