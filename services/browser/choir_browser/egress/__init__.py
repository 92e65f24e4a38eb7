"""The egress proxy: checks the address that is dialled, not the name that was requested.

Owns the proxy, the address rules, the operator's allowlist and the traffic limits. Sees hosts,
ports and bytes; knows nothing of pages or of agents' requests.
"""
