"""Adapter for OpenAI's Chat Completions API, which most providers and servers offer."""
