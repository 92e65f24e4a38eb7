"""Budgets of a session: hard limits, reserved before a model call and settled after it.

Pure except for the reservations of model calls in flight; the amounts spent are in the folded state. See
docs/design/lanes.md.
"""
