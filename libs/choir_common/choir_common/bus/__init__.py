"""Typed request-reply and events between services over NATS; the only package that imports `nats`.

`subjects` defines every subject and its route once, `permissions` what each service may do. `client`
connects, sends and serves requests with typed models, a deadline for every call and an error envelope
for every failure. Nothing here is durable.
"""
