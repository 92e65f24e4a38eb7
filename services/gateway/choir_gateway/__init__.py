"""The channels of Choir: Telegram bots and the console."""
