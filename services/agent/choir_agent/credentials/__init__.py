"""Git and SSH credentials in memory (spec 14): helper, ssh-agent, secrets scoped by tool.

Never writes a secret to disk, an environment or a log.
"""
