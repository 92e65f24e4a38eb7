"""Clients of speech services: transcription, and synthesis with the providers of `tts`.

Owns the requests, their limits and the texts of their errors. The lanes and the tool `choir.tts.speak` decide
what is transcribed or spoken.
"""
