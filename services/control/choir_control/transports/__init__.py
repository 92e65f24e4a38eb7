"""Owns how control is reached over TCP: plain or TLS, with which certificate, and what agents are told of it.

Never knows what is said: the doors answer alike on a Unix socket, over HTTP and over HTTPS (spec 12.2).
Ladder: tcp > tls > authority | own_files.
"""
