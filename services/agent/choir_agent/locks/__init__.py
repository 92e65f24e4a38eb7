"""Locks on resources inside one agent: a lockset is granted as a whole, in order of arrival.

Does not own the work done under a lock: the arbiter acquires a lockset before a call and releases it
afterwards. See docs/design/locks.md.
"""
