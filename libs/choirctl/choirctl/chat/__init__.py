"""The terminal chat: its prompt, line parser, renderer, status line and file transfer."""
