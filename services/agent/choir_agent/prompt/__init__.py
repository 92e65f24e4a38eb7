"""The model's prompt: instructions and identity, reference summary, event window, notes.

Pure, except for reading the `.md` files once. Every message is rendered to bytes once, so that the same
history gives the same bytes in every call.
"""
