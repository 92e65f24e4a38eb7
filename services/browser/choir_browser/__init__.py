"""The browser service of Choir: Chromium with one isolated context per running agent.

Owns Chromium, the agents' contexts in it, and the egress proxy that all web traffic passes through.
Page content is untrusted: pages cannot reach private addresses, and nothing is left on disk. See
docs/design/tools.md.
"""
