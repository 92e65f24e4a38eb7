"""The door to Postgres: a pool whose failures are Choir's errors, and the runner of migrations.

Only `store` modules hold SQL; they get a `Database` passed in.
"""
