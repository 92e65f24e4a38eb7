"""Fork servers: processes that have a program's modules loaded, and whose forks become that program.

Control starts agents this way, and the supervisor of the embedded stack its services.
"""
