"""The Slack channel, based on slack_sdk and aiohttp; the only package that imports slack_sdk.

Owns both directions of an app: `sender` for deliveries, `receiver` for messages and presses, `connection` for
Socket Mode. `channel` connects the parts. Direct messages and channels.
"""
