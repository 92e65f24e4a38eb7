"""Validation of proposals and their submission to control.

A proposal is only stored; it changes nothing that this agent can do. A human decides on it.
"""
