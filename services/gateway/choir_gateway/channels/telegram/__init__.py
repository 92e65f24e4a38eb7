"""The Telegram channel, based on python-telegram-bot; the only package that imports that library.

Owns both directions of a bot: `sender` for deliveries, `polling` or `webhook` for updates.
`channel` connects the parts.
"""
