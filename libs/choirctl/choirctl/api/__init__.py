"""Clients of the running Choir: the operator API, the memory API, and the secrets file."""
