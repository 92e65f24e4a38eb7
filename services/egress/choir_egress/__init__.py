"""Egress service: the HTTP proxy through which agents and their tool calls reach the network.

Each running agent has a Unix socket of its own. The service resolves names, checks addresses and hosts, and
dials exactly what it checked. It stores nothing: control sends the running agents and their rules.
"""

from choir_common.extras import installed_version

VERSION = installed_version()
