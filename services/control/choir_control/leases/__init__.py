"""Owns who holds what: exclusive resources (spec 6.4), and the lease tokens of sessions (spec 12.4).

Never starts or ends a session; `sessions` calls it inside its own transactions.
Ladder: guard > store > bindings | token.
"""
