"""Requests and replies between services over NATS; the only room that imports `nats`.

`subjects` names every subject once; `client` connects, asks and answers with typed models, a deadline
on every call and an error envelope on every failure. Nothing that must survive lives here.
"""
