"""Budgets (spec 7.6): hard stops, reserved before a model call and settled after it.

Pure apart from the reservations of calls in flight; what was spent stands in the log's state.
"""
