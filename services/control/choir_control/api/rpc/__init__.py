"""The agents' RPC endpoint: eight verbs at `POST /rpc/<verb>`, identical on sockets and TCP.

Owns authentication, limits and the parsing of bodies. The verbs call other packages.
"""
