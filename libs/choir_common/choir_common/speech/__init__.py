"""Audio files, and OpenAI's `/audio/transcriptions` as a client sends and reads it. Pure, except `ogg`."""
