"""Directory for PYTHONPATH with a stand-in for faster-whisper."""
