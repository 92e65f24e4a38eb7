"""Owns words on their way to users, an agent's or Choir's own: delivered in order per DM, once.

Never writes a word itself. Ladder: deliver > lane > store.
"""
