"""Fakes of services for tests. Not used by the product."""
