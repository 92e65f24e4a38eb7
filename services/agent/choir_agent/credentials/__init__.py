"""Secrets narrowed to who may have them, and git's credentials in memory (spec 14).

Owns the private directory that git's configuration and sockets lie in. Never writes a secret to disk, an
environment, an argument list or a log, and never answers for a host that the identity does not name.

Ladder, top to bottom:
    git > door | ssh_agent > answer | config_files | peers > scope | own_children
`cred_helper` is run as a script by git, and imports nothing but the standard library.
"""
