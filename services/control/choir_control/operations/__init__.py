"""Owns work that takes longer than a request: builds, updates, resets, backups. Each is a row with an end.

Never knows what a work is about. One cut off by an end of choird is marked `interrupted` at the next start;
the works themselves see to it that they leave the old state or the new one.
Ladder: run > progress | card | store.
"""
