"""The embedded stack of Choir: Postgres, NATS, the rehearsal model and the services as child processes.

Owns an installation without Docker: finding, starting, watching, restarting and stopping the processes, and
the secrets of a local installation. Its only request to a service is whether it is ready or alive.
"""
