"""Operator tasks on the embedded database: migrate, back up and restore.

The content of a schema is defined by the services; only their migration files are read here.
"""
