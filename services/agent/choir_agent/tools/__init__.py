"""The only way a model can see or change anything (spec 8): manifests, the registry, the built-in tools.

Never decides whether a call may run; that is the arbiter's ruling.
"""
