"""Interfaces of control: the operator API, the agents' RPC, the signal stream, and NATS endpoints.

Only this package knows HTTP. `operator` serves `/v1`, `rpc` the agents' requests, `transports` the sockets
and TLS, `bus` the requests of the other services.
"""
