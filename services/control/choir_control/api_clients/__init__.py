"""Clients of the OpenAI-compatible API: their tokens, and what they have open.

Owns the table `api_clients`. Does not serve their requests: `api.openai` does.
"""
