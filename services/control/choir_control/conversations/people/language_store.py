"""The table `user_languages`."""

from choir_common.postgres.pool import Database
from choir_control.configuration.people import UserLanguage


class LanguageStore:
    """Store of what users and their apps have said about their language."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read_all(self) -> dict[str, UserLanguage]:
        """Return the languages by owner."""
        rows = await self._database.fetch(
            "SELECT owner, app, chosen FROM choir_control.user_languages"
        )
        return {row["owner"]: UserLanguage(row["app"], row["chosen"]) for row in rows}

    async def put(self, owner: str, language: UserLanguage) -> None:
        """Store the languages of an owner in place of earlier ones."""
        await self._database.execute(
            """
            INSERT INTO choir_control.user_languages (owner, app, chosen) VALUES ($1, $2, $3)
            ON CONFLICT (owner) DO UPDATE SET app = EXCLUDED.app, chosen = EXCLUDED.chosen
            """,
            owner,
            language.app,
            language.choice,
        )
