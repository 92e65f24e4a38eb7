"""Owns what is done to a workspace's directory from outside: measure it, empty it, lay files into it (15.4).

Never decides when that may be done; `sessions.reset` does, and holds the lease meanwhile. All of it blocks,
so callers use threads.
Ladder: empty | measure > root; outgoing > spool > staging; outgoing | outgoing_store > spooled; naming.
"""
