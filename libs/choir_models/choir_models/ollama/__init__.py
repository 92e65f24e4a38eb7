"""Adapter for Ollama's own API, where a request can set the context length."""
