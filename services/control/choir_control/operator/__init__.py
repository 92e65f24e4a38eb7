"""The people's door: `/v1` for choirctl, scripts and the console (ARCHITECTURE 4).

Owns who may come in and what they see; what happens is in the rooms.
Ladder: agents | sessions | memory | system | console > admission > descent.
"""
