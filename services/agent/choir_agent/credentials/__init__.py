"""Secrets limited to the tools that need them, and git credentials served from memory.

Owns the private directory with git's configuration and sockets. Never writes a secret to disk, an
environment variable, an argument list or a log, and never answers for a host that the identity does not
name. See docs/design/security.md.

`cred_helper` is run by git as a script and imports the standard library only.
"""
