"""The rehearsal model: an OpenAI-compatible server that follows a score, a scripted set of answers.

Serves `/v1/chat/completions` and `/v1/embeddings`. It is the default model without a configured provider,
and the model of all tests and measurements. It makes no outgoing calls. The next answer is derived from the
messages of the request; the only state is counters and the newest prompts, to measure prefix reuse.
"""
