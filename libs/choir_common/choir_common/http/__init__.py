"""HTTP as all of Choir speaks it: one app factory, one way to listen, one client factory, SSE.

`transport` is the only place that knows Unix sockets from TCP.
"""
