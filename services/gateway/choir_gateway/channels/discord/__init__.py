"""The Discord channel, based on discord.py; the only package that imports that library.

Owns both directions of a bot: `sender` for deliveries, `receiver` for messages and presses, `connection` for
the gateway connection. `channel` connects the parts. `places` are direct messages, and channels of servers.
"""
