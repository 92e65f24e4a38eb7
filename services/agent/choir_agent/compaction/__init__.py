"""Compaction: folds old events into a lane's reference summary, and summarizes a session at its end.

Calls the lane's own model within the session's budget, and commits through the arbiter; the pure parts are
in `working_memory`. Changes nothing except which old events a window contains; the log stays complete.
"""
