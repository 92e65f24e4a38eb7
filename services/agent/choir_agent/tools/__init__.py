"""The agent's tools: manifests, the registry, the built-in tools and the loader of external ones.

Tools are the only way a model can read or change anything. Whether a call may run is decided by the
arbiter, not here. See docs/design/tools.md.
"""
