"""What the model reads (spec 11.3): instructions and identity, the event window, the user's message.

Pure, apart from reading the `.md` files once; every message is rendered to bytes once, so that the same
history gives the same bytes at every call.
"""
