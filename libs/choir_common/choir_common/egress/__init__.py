"""Parts of an egress proxy: rules on addresses, dialling of checked addresses, and forwarding.

Used by the browser service for pages and by the egress service for agents. Knows hosts, ports and bytes,
not who sends them.
"""
