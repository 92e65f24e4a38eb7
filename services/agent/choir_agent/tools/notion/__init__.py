"""Owns the talk with Notion: its requests, and what pages are turned into and made from.

Never decides what is read or written; that is the model's, through `choir.notion.query`. Ladder:
pages > api > blocks | properties.
Plain requests instead of the notion-client package: that one brings the old httpx beside the httpx2 every
agent has, a second HTTP stack in its memory, and neither our limits on what is read nor the one wait when the
rate is limited.
"""
