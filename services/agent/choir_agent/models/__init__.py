"""How the agent uses language models: budget, retries, and what the user is told about a failure.

The clients of the providers are in `choir_models`.
"""
