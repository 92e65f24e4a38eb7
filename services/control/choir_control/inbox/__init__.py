"""Owns users' messages from the moment a channel hands them over until a log has taken them up.

Never decides who may speak (the configured DMs do); never starts an agent.
Ladder: accept > obey > commands | words | store.
"""
