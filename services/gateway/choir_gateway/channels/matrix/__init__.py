"""The Matrix channel: a bot's account in direct rooms without encryption, over the client-server API.

Owns both directions: `receiver` follows /sync, `sender` delivers. `channel` connects the parts.
"""
