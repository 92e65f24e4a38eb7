"""What is derived from verbatim memory or brought to it: facts, errors of tools, documents.

Works beside the reply path. Every derived row links to what it came from and is trusted no more than that.
Never invents: without a model nothing is extracted.

    tool_errors     what went wrong with a tool and how it ended, and hints when it goes wrong again
    episodes        what a session was about, once it has ended
    extraction      facts and rules from what was said, by the model, in batches
    candidates      what a model proposes, held to rules of our own, pure
    reconcile       a new fact beside what is known: again, in its place, or beside it
    reminders       what belongs beside a message: wishes, what it names, what is near it
    entities        the names facts mention, as nodes that lead to them, pure
    collections     documents that were brought; `chunk` cuts them, pure
    expiry          what was kept for a time goes
    known           a derived document before it is stored; `known_store` stores it
    model           the service's own optional language model, as a port
    openai_model    that port behind an OpenAI-compatible endpoint
"""
