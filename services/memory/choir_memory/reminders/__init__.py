"""Reminders: knowledge that is added to a prompt without having been asked for."""
