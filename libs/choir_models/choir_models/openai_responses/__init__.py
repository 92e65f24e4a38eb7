"""Adapter for OpenAI's Responses API, which keeps the thoughts of reasoning models between calls."""
