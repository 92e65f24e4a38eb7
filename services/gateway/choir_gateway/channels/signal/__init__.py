"""The Signal channel: an account of signal-cli behind signal-cli-rest-api, in its json-rpc mode.

Owns both directions: `connection` stores what arrives over the WebSocket, `receiver` handles it, `sender`
delivers. `channel` connects the parts.
"""
