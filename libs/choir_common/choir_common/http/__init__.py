"""HTTP for all services: app factory, listener, client factory, server-sent events.

Callers need not distinguish Unix sockets from TCP: `transport` and `listen` do.
"""
