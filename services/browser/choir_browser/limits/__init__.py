"""Limits on what one agent's pages may take from others: load slots, memory and processor time.

Owns the load slots and the process watchdog, which lowers the priority of Chromium's processes or
kills them. Network limits belong to `egress`.
"""
