"""Keeps the configuration: reads config.json strictly, checks it as a whole, numbers its versions.

Never holds a secret's value; never applies a half-read file. Also lays out the identity files an
agent sees. Ladder: staging > change | current > read > check; identity and version_store stand beside them.
"""
