"""Which memory an agent's turns may read: by the person of their conversation, if the configuration says so.

Pure. A conversation of nobody in `people` belongs to itself.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from choir_common.wire.config import AgentConfig
from choir_common.wire.memory_search import MemoryReader
from choir_control.configuration.people import PersonRegistry


@dataclass(frozen=True, slots=True)
class MemoryReaders:
    """The readers of agents' memories in one configuration, with the links between identities."""

    people: PersonRegistry

    def find(
        self, agent_id: str, dm: str, *, served: Iterable[str], of_other: bool = False
    ) -> MemoryReader | None:
        """Return who reads an agent's memory in a conversation; None: everything is shared.

        `served` are all conversations that the agent has ever had; with `of_other`, another agent reads, and
        they are not known.
        """
        agent = self._agent(agent_id)
        if not self._is_separate(agent, [dm, *served], several=of_other):
            return None
        return self._reader(agent, dm)

    def shares(self, agent_id: str, dm: str, other_dm: str, *, served: Iterable[str]) -> bool:
        """Return whether one conversation may know what was said in another one."""
        reader = self.find(agent_id, dm, served=[other_dm, *served])
        return reader is None or other_dm in reader.conversations

    def list_all(self, agent_id: str, served: Iterable[str]) -> tuple[MemoryReader, ...]:
        """Return all readers of an agent's memory; none: everything is shared."""
        agent = self._agent(agent_id)
        dms = [*served, *_conversations(agent)]
        if not self._is_separate(agent, dms):
            return ()
        return tuple({self._key(dm): self._reader(agent, dm) for dm in sorted(dms)}.values())

    def _is_separate(
        self, agent: AgentConfig | None, dms: Iterable[str], *, several: bool = False
    ) -> bool:
        setting = agent.memory_between_people if agent else None
        if setting is not None:
            return setting == "separate"
        if not self.people.config.people:
            return False
        return several or len({self._key(dm) for dm in (*dms, *_conversations(agent))}) > 1

    def _reader(self, agent: AgentConfig | None, dm: str) -> MemoryReader:
        key = self._key(dm)
        own = {name for name in self.people.config.dms if self._key(name) == key}
        home = agent.defaults.dm if agent else None
        return MemoryReader(
            conversations=tuple(sorted({dm, *own})),
            with_older=home is not None and self._key(home) == key,
        )

    def _agent(self, agent_id: str) -> AgentConfig | None:
        return self.people.config.agents.get(agent_id)

    def _key(self, dm: str) -> tuple[str, str]:
        """Return what two conversations of one person have in common."""
        person = self.people.person_in(dm)
        return ("dm", dm) if person is None else ("person", person)


def _conversations(agent: AgentConfig | None) -> tuple[str, ...]:
    return (agent.defaults.dm, *agent.conversations) if agent else ()
