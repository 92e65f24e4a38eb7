"""Run agents in hardened containers (spec 15.3) started through a Docker engine.

Owns the create request and the life of those containers. Never decides when an agent runs (`sessions` does),
never mounts the engine's socket into one. Only `app` imports it, and only where the setting says so: the SDK
takes 15 MB.

Ladder, top to bottom; each module imports only those below it:
    runtime > deaths > engine > container
"""
