"""Connecting Telegram bots: the code that a person sends, the new entries and secret, the agent's move.

Owns the attempts, in memory. What lasts is in config.json, secrets.json and `config_versions`.
"""
