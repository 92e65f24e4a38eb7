"""Agent runtime that runs agents in hardened containers of a Docker engine.

Owns the create request and the lifecycle of the containers. The engine's socket is never mounted into
a container. The package is imported only when the settings select it, because the SDK needs 15 MB.
"""
