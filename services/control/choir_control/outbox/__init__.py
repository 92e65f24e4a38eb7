"""Owns words on their way to users: rows made by the log, delivered in order per DM, once.

Never writes a word itself. Ladder: deliver > lane > store.
"""
