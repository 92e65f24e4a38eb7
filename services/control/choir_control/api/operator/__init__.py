"""Operator API `/v1`, used by choirctl, scripts and the console.

Owns authentication of operators and the shape of requests and responses. The work itself is done by the
packages that the routers call.
"""
