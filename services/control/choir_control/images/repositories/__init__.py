"""Mirrors of the git repositories that contain agents' tools, skills and identity.

Owns fetching, checking and reading of repositories. It never executes, checks out or modifies a
repository: it reads plain files from a bare mirror, and each file is checked before it is written.
"""
