"""What is derived from verbatim memory or brought to it: facts, errors of tools, documents.

Works beside the reply path. Every derived row links to what it came from and is trusted no more than that.
Never invents: without a model nothing is extracted.

    tool_errors     what went wrong with a tool, and how it ended: from a session's events, and as hints
    collections     documents a user brought, in chunks
    model           the service's own optional language model, as a port
    openai_model    that port behind an OpenAI-compatible endpoint
"""
