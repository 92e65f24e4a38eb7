"""Shared test support: real servers, service processes, the embedded stack, fakes of external services."""
