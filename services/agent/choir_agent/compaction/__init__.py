"""Fold old events into a lane's reference summary, and sum up a session at its end (spec 11.3, 11.8).

Thinks with the lane's own model, within the session's budget, and commits through the arbiter; the pure parts
are in `memory`. Never touches the log or anything but old events of a window.
Ladder: compact > ask | plan > material; session_summary > ask.
"""
