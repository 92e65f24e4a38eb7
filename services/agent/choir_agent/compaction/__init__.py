"""Fold old events into a lane's reference summary, and sum up a session at its end (spec 11.3, 11.8).

Thinks with a model and commits through the arbiter; the pure parts are in `memory`.
"""
