"""Leases: exclusive resources of sessions, and the lease tokens that agents authenticate with.

A lease is acquired and released inside the transactions of the session stores.
"""
