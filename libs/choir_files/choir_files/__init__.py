"""Text of files (PDF, Office, HTML, source code, plain text), and pictures in the size that models read.

Files may be hostile. The libraries that parse them are loaded by a child process only; each file is read in a
fork of it that can open nothing, with limits on memory and CPU time (`sandbox.py`).
"""
