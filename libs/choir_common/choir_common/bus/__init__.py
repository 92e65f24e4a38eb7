"""Typed request-reply and events between services over NATS; the only package that imports `nats`.

`subjects` defines every subject once. `client` connects, sends and serves requests with typed models, a
deadline for every call and an error envelope for every failure. Nothing here is durable.
"""
