"""Benchmark of Choir against minimal baselines ("floors"); run by `python -m tests.bench` or `make
bench`.

Absolute times mean little on a shared machine, so Choir and its baseline are measured alternately in one run,
and the ratio is the result.
"""
