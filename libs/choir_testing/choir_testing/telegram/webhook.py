"""Delivery of one bot's updates to its webhook: in order, one at a time, with retries.

`server` runs `push_updates` for each bot; without a webhook it waits.
"""

import asyncio

import httpx2

from choir_testing.telegram.accounts import Bot

SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105  a header's name
RETRY_S = 0.1


async def push_updates(bot: Bot, client: httpx2.AsyncClient) -> None:
    """Push updates until cancelled; getWebhookInfo shows the last error."""
    while True:
        update = await bot.mailbox.next_push(bot.webhook.kinds)
        hook = bot.webhook
        if not hook.url:
            await bot.mailbox.wait_for_change()
            continue
        headers = {SECRET_HEADER: hook.secret_token} if hook.secret_token else {}
        try:
            answer = await client.post(hook.url, json=update.as_json(), headers=headers)
        except httpx2.HTTPError as error:
            hook.last_error = f"Connection failed: {type(error).__name__}"
            await asyncio.sleep(RETRY_S)
            continue
        if answer.is_success:
            bot.mailbox.taken(update)
            continue
        hook.last_error = f"Wrong response from the webhook: {answer.status_code}"
        await asyncio.sleep(RETRY_S)
