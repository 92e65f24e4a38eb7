"""Readers of what other assistants store or export: one module for each format.

A reader yields the plain items of `items`; `memory_records` makes records of an agent's memory of them. What
is read is untrusted: texts are never interpreted, and records that are wrong are reported and skipped.
"""
