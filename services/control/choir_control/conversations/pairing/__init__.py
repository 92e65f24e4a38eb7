"""Pairing of unknown users: codes, decisions of admins, and the users who were given a conversation.

Owns the tables `pairing_requests` and `paired_users`. What a paired user may do is decided by
`configuration.people`.
"""
