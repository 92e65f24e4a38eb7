"""The egress proxy of browser pages, with its traffic limits.

The rules on addresses, the dialer and the forwarding are in `choir_common.egress`.
"""
