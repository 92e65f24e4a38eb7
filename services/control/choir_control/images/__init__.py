"""Agents' images: the contents of /choir, merged from the repositories and built once.

Owns building, checking and selecting images. It never starts an agent and never modifies an existing
image: a build creates a new one and then, in one rename, makes it the image of the next start.
"""
