"""Configuration of the control plane: reading, checking, staging, versions.

Owns config.json: strict parsing, cross-reference checks, the staged candidate, the version in
force, and the identity files that an agent sees. Never contains the value of a secret and never
applies a file in part.
"""
