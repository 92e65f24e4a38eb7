"""Telegram through python-telegram-bot: the only folder that imports it.

channel > polling | sending > chunks | updates | pauses.
"""
