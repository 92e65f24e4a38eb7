"""Periodic work: summaries, extraction and retention of each agent, and upkeep of the database.

Upkeep covers vector indexes, planner statistics and old traces. Nothing waits for this work: without an
index a search is exact, only slower.
"""
