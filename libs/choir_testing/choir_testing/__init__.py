"""Fakes of services, and the rehearsal model in a test's own process.

No product package depends on this distribution.
"""
