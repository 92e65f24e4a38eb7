"""Carry the log to control, eagerly and in order, and say what is durable (spec 13.1)."""
