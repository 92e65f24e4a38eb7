"""The intents of a bot: which events Discord sends it, by the configured conversations. Pure.

`connection` asks for them when it starts a session.
"""

import discord

from choir_gateway.channels.interface import ConversationDirectory


def find_intents(gateway: str, conversations: ConversationDirectory) -> discord.Intents:
    """Return the intents that a bot needs.

    The content of direct messages, and of messages that mention the bot, needs no privileged intent.
    """
    groups = [dm for dm in conversations.by_name.values() if dm.gateway == gateway and dm.chat_id]
    return discord.Intents(
        dm_messages=True,
        # Channels and threads: a message in a thread does not name the channel of the thread.
        guilds=bool(groups),
        guild_messages=bool(groups),
        message_content=any(dm.answers == "all" for dm in groups),
    )
