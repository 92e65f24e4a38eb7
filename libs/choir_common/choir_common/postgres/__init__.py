"""Postgres access: a connection pool that raises Choir's errors, and the migration runner.

Only `store` modules contain SQL; they receive a `Database`.
"""
