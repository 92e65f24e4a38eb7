"""Digest and display of approval requests, identical in control and choirctl.

Does not decide and does not store requests. See docs/design/approvals.md.
"""
