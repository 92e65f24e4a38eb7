"""Code that at least two services of Choir share: wire models, hash chain, clients and adapters.

Owns the models that cross process boundaries, the hash chain of the event log, and the adapters for NATS,
HTTP and Postgres. Contains no policy: control decides who may act, and the agent decides how to think.
"""
