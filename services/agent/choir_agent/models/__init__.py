"""Client for language models: the port `ChatModel`, and an adapter for OpenAI-compatible endpoints.

Makes no decisions about an answer; errors are `choir_common.errors` with messages that a user can read.
"""
