"""Figures beside their floor, measured in one run; `python -m tests.bench` or `make bench`.

Absolute times prove nothing on a shared machine: what is compared is taken in turns, and the ratio counts.
"""
