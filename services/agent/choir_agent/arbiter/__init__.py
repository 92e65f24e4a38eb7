"""The arbiter: the only component that appends to the log, and the only way to run a tool.

Commits are serial because they never wait; tool calls are concurrent, each in its own task under its own
locks. It never calls a model or talks to the user. See docs/design/arbiter.md.
"""
