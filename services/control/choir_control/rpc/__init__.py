"""The agents' door: eight verbs at `POST /rpc/<verb>` (spec 12.5), the same on socket and TCP.

Owns who may call and how a body is read; what a verb does is in the rooms.
Ladder: routes > door > verbs > caller | body | limits.
"""
