"""Prompts for memory's model from files in the agents' repositories."""

from collections.abc import Iterator
from pathlib import Path

import structlog

from choir_common.errors import ChoirError, InvalidRequest
from choir_common.i18n import _
from choir_common.wire.config import Config, MemoryPrompts
from choir_common.wire.config_parts import MAX_PROMPT_CHARS, PromptConfig, check_prompt
from choir_control.configuration.current import ConfigService
from choir_control.images.repositories.mirrors import Mirrors
from choir_control.images.repositories.source import configured_source, folder_source

log = structlog.get_logger("choir.repos")

MAX_BYTES = 4 * MAX_PROMPT_CHARS


async def read_prompt_file(
    mirrors: Mirrors, home: Path, config: Config, agent_id: str, path: str
) -> str:
    """Return the text of a prompt file in the agent's own repository or folder.

    Raises InvalidRequest if the agent has neither, or if the file is missing, too long or not text.
    """
    source = configured_source(config, agent_id) or folder_source(home, agent_id)
    if source is None:
        raise InvalidRequest(
            _("{agent_id} has neither a repository nor a folder with contents.").format(
                agent_id=agent_id
            )
        )
    content = await mirrors.read_file(source, path, MAX_BYTES)
    try:
        return check_prompt(content.decode())
    except UnicodeDecodeError:
        raise InvalidRequest(
            _("{path} in {display_name} is not UTF-8 text.").format(
                path=path, display_name=source.display_name
            )
        ) from None
    except ValueError as error:
        raise InvalidRequest(f"{path} in {source.display_name}: {error}.") from None


def list_prompt_files(config: Config) -> Iterator[tuple[str, str, str]]:
    """Yield the agent, the config path and the file of each prompt that is in a repository."""
    for agent_id, agent in config.agents.items():
        prompts = agent.memory_prompts
        for name, prompt in (("extraction", prompts.extraction), ("summaries", prompts.summaries)):
            if prompt is not None and prompt.file is not None:
                yield agent_id, f"agents.{agent_id}.memory_prompts.{name}.file", prompt.file


class MemoryPromptReader:
    """Reader of the prompts of all agents, for memory's maintenance passes."""

    def __init__(self, configuration: ConfigService, mirrors: Mirrors, home: Path) -> None:
        self._configuration = configuration
        self._mirrors = mirrors
        self._home = home

    async def read(self) -> dict[str, MemoryPrompts]:
        """Return the prompts of the agents that have their own.

        A file that cannot be read any more is logged, and the default prompt is used.
        """
        config = self._configuration.current.config
        prompts = {
            agent_id: MemoryPrompts(
                extraction=await self._text(config, agent_id, agent.memory_prompts.extraction),
                summaries=await self._text(config, agent_id, agent.memory_prompts.summaries),
            )
            for agent_id, agent in config.agents.items()
        }
        return {name: own for name, own in prompts.items() if own != MemoryPrompts()}

    async def _text(self, config: Config, agent_id: str, prompt: PromptConfig | None) -> str | None:
        if prompt is None or prompt.file is None:
            return prompt.text if prompt is not None else None
        try:
            return await read_prompt_file(self._mirrors, self._home, config, agent_id, prompt.file)
        except ChoirError as error:
            log.warning("default prompt used for memory", agent=agent_id, error=error.message)
            return None
