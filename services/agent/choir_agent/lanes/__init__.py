"""Lanes: who thinks about what (spec 7.1). Today one, the edge lane, which talks with the user.

A lane proposes; it can change nothing but through the arbiter.
"""
