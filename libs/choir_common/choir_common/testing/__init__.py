"""Fakes, and fixtures that start real servers; imported by tests alone."""
