"""Owns requests for a human's decision: one durable pending row per (session, call).

Never decides. Ladder: store.
"""
