"""Fakes of services for tests. No product package depends on this distribution."""
