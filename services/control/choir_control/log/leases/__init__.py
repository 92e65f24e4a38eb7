"""Leases: exclusive resources of sessions, and the lease tokens that agents authenticate with.

Also the memory settings of conversations, which are part of a lease. A lease is acquired and released inside
the transactions of the session stores.
"""
