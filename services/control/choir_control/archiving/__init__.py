"""Owns the way of sessions into memory: page by page, in the order they began, until memory has all of them.

Never reads a word of them: what a session becomes in memory is the memory service's. Ladder: archivist >
store | rehearsals.
"""
