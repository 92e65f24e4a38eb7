"""First line of a connection to the egress proxy over TCP: which agent it is from, and a proof. Pure.

A Unix socket tells by its place whose proxy it is. Over TCP all agents share one port, so each connection,
inside TLS, begins with `AGENT MAC` and a newline. What follows is what a Unix socket would carry.
"""

import hashlib
import hmac

MAX_GREETING = 200
"""Bytes of a greeting with its newline: names of agents have 63 at most."""
_PURPOSE = b"connection of "


def greeting(agent_id: str, key: str) -> bytes:
    """Return the line for connections of an agent with this key (hex)."""
    return f"{agent_id} {_mac(agent_id, key)}\n".encode()


def greeting_agent(line: bytes) -> str:
    """Return whom a greeting names, unproved; empty if the line is none."""
    name, space, _ = line.partition(b" ")
    return name.decode("ascii", "replace") if space and line.endswith(b"\n") else ""


def is_greeting(line: bytes, agent_id: str, key: str) -> bool:
    """Return whether the line proves the key of this agent; takes the same time for any wrong line."""
    return hmac.compare_digest(line, greeting(agent_id, key))


def _mac(agent_id: str, key: str) -> str:
    # the purpose keeps it apart from passwords, which are MACs of user names
    return hmac.new(bytes.fromhex(key), _PURPOSE + agent_id.encode(), hashlib.sha256).hexdigest()
