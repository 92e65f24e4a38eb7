"""Models that cross process boundaries: frozen, strict, unknown fields forbidden.

Used by all services and clients. The models contain no behaviour except parsing and rendering.
"""
