"""Maintenance of growing data: vector indexes, planner statistics, and deletion of old traces.

Never touches documents, and nothing waits for it: without an index a search is exact, only slower.
"""
