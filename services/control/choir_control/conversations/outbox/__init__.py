"""Delivery of messages to users: in order per conversation, and once where the channel allows it.

Owns the table `outbox` after its rows were inserted by an append or by the SQL function `say`.
Never writes the text of a message.
"""
