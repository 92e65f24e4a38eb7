"""Notifications of browsers by Web Push (RFC 8030, 8291 and 8292); see docs/decisions/0107.

Owns the tables `web_push_subscriptions` and `web_push_key`. A notification says that a message is there,
in which conversation and from which agent, and never its text.
"""
