"""Locks on resources (spec 9): who may touch what, all or nothing, in order of arrival.

Never owns the work done under a lock; the arbiter takes a lockset before a call and gives it back after.
"""
