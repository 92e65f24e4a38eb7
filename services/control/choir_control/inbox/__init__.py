"""Owns users' messages from the moment a channel hands them over until a log has taken them up.

Never decides who may speak (the configured DMs do); never knows a command (it is handed whoever does).
Ladder: accept > store; fetch > received_store; words.
"""
