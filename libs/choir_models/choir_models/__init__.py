"""Clients of language models: the port `ChatModel`, and one adapter per API.

`registry` chooses the adapter by the model's `api` setting. An adapter makes no decisions about an answer;
its errors have messages that a user can read.
"""
