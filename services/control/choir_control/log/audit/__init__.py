"""Proof that the stored logs are unchanged: keys, anchors, and verification.

Owns the keys of the audit log and the tables `audit_anchors` and `audit_anchor_heads`. Never changes a log.
"""
