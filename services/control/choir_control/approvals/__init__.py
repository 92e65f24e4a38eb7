"""Owns requests for a human's decision: one durable row per (session, call), decided once.

Never decides by itself: a request that nobody decides in time expires, and is not carried out. Never
carries out what was approved: `evolution` does.
Ladder: expire, press > decide > store > words, nonce.
"""
