"""Coding agents of others that do core jobs: their programs, protocols, calls and jobs.

See docs/harnesses.md and docs/decisions/0106.
"""
