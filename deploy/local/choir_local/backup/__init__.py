"""Whole-home backups: one file with the database, configuration, secrets, identities and workspaces.

`create` writes one while Choir runs, `restore` makes a home of it, `archive` is the format and `age` its
encryption. Decision 112 has the reasons.
"""
