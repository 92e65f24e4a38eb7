"""The OpenAI-compatible API, `/openai/v1`: agents are models, and each client has its own conversations.

Translates requests into messages of the console, and its event stream into replies (decision 95).
"""
