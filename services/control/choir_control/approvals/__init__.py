"""Requests for a human's decision: one durable row per (session, call), decided once.

Owns the requests, their buttons, their expiry and the texts about them. Never decides by itself: a
request that nobody decides in time expires and is not carried out. `evolution` carries out approved
requests.
"""
