"""Transcription without internet: OpenAI's `/audio/transcriptions` with a faster-whisper model.

Owns the server that the embedded stack starts for an entry of `transcription` with `model_dir`. It never
downloads anything; faster-whisper is the extra `transcription` of this package.
"""
