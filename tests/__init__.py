"""Choir's tests: unit, contract, service, journey, faults, security, compose, bench."""
