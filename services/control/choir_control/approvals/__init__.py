"""Owns requests for a human's decision: one durable row per (session, call), decided once.

Never decides by itself, except that time runs out, which is a no; never carries out what was approved:
`evolution` does.
Ladder: expire, press > decide > store > words, nonce.
"""
