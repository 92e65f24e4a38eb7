"""Conversations (DMs) with people: incoming and outgoing messages, chat commands, activity lines."""
