"""The WhatsApp channel, over Meta's Cloud API with plain HTTP; it needs no library of the vendor.

Owns both directions of a business number: `sender` for deliveries, `receiver` for what Meta sends to the
webhook. `channel` connects the parts. Private chats only.
"""
