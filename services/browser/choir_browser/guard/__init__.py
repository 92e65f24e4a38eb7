"""What the browser may reach: judged on the address that is dialled, not on the name that was asked.

Owns the egress proxy, the address rules and the operator's allowlist. Never knows of pages or agents'
wishes: it sees hosts, ports and bytes.

Ladder: proxy > forwarding > allowance | resolve > allowlist | addresses | heads.
"""
