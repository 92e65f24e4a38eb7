"""Owns what control and choirctl must say alike of a request for a decision: its digest, and how it is shown.

Never decides, and holds no request. Ladder: shown | digest.
"""
