"""An agent that talks through a Telegram bot."""

import json
from pathlib import Path

BOT_TOKEN = "123456:journey-bot-token"
TELEGRAM_USER = 4711


class Prepare:
    """Rewrites the starter config for an agent that talks through a Telegram bot."""

    def __init__(self, api_url: str) -> None:
        self._api_url = api_url

    def __call__(self, home: Path) -> None:
        config = json.loads((home / "config.json").read_text())
        config["gateways"]["bot"] = {
            "type": "telegram",
            "secret": "bot-token",
            "api_url": self._api_url,
        }
        config["dms"]["phone"] = {"gateway": "bot", "user_id": str(TELEGRAM_USER), "admin": True}
        config["agents"]["main"]["defaults"]["dm"] = "phone"
        (home / "config.json").write_text(json.dumps(config))
        secrets = json.loads((home / "secrets.json").read_text())
        secrets["bot-token"] = BOT_TOKEN
        (home / "secrets.json").write_text(json.dumps(secrets))
