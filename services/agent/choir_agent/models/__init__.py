"""The door to the language model: one port `Model`, one adapter for OpenAI-compatible endpoints (spec 21).

Never decides what to do with an answer; errors come out as `choir_common.errors` that can be shown to a user.
"""
