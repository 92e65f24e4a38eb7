"""Errors of reading files."""


class UnreadableFile(Exception):
    """The file has no text for us; the message says why, and follows the file's name in a sentence."""
