"""TCP access to control: plain HTTP or TLS, the certificates, and the address that agents receive.

Owns the port and its TLS settings. The requests are handled alike on Unix sockets, HTTP and HTTPS.
"""
