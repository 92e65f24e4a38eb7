"""Model servers on one's own machines (Ollama, llama.cpp, vLLM, LM Studio): what they serve, and with which
context length.

`responses` parses what they answer, and `discovery` asks them.
"""
