"""The only way to call another service: a port, its client over the bus, and its fake.

A fake keeps its state in memory and obeys the same suite as the real service (tests/contract).
"""
