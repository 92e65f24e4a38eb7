"""The gateway service: channels between users and Choir, which are bots of messengers and the console.

Owns translation: an incoming update becomes an InboundMessage, and an OutboundMessage becomes calls
of the channel's API. Routing, permissions, the inbox and the outbox belong to control.
"""

from choir_common.extras import installed_version

VERSION = installed_version()
