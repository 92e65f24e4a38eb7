"""Registry of all tools of an agent: lookup by name, views for models, input validation.

Only the tools of MCP servers and of harnesses change while the agent runs (`replace_tools`).

OpenAI's function names may not contain dots, so the model sees `choir_fs_read`. A table maps it back;
underscores cannot be replaced blindly because canonical names contain them, too.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict

import orjson

from choir_agent.tools.agent_argument import offer_agents
from choir_agent.tools.conversation_argument import Destinations, offer_destinations
from choir_agent.tools.harness_argument import HarnessOffers, offer_harnesses
from choir_agent.tools.manifest import ToolManifest
from choir_agent.tools.model_view import model_name, model_view
from choir_agent.tools.short_tools import shorten_manifest
from choir_agent.tools.tool import Tool
from choir_common.errors import StartupError
from choir_common.json_schema import SchemaValidator
from choir_common.lanes import is_edge
from choir_common.wire.model import JsonObject

# A lane's view is needed at every model call; there are few distinct skill states and job
# constraints.
MAX_VIEWS = 64


class ToolRegistry:
    """The tools, their validators and the models' views of them."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.manifest.name: tool for tool in tools}
        self._canonical = _names_of(self._tools)
        if len(self._canonical) != 2 * len(tools):
            raise StartupError("Two tools have the same model name.")
        self._validators: dict[str, SchemaValidator] = {}
        self._views: dict[tuple[object, ...], bytes] = {}
        manifests = [self._tools[name].manifest for name in sorted(self._tools)]
        self.manifest_hash = hashlib.sha256(
            orjson.dumps([asdict(manifest) for manifest in manifests], option=orjson.OPT_SORT_KEYS)
        ).hexdigest()

    def replace_tools(self, prefix: str, tools: Sequence[Tool]) -> tuple[str, ...]:
        """Replace the tools whose names begin with `prefix`; return the names that were taken already.

        A tool with a taken name is left out: it must not pass as another.
        """
        remaining = {
            name: tool for name, tool in self._tools.items() if not name.startswith(prefix)
        }
        names, conflicts = _names_of(remaining), []
        for tool in tools:
            name = tool.manifest.name
            if not name.startswith(prefix) or {name, model_name(name)} & names.keys():
                conflicts.append(name)
                continue
            remaining[name] = tool
            names |= _names_of((name,))
        # New objects, not changed ones: a check in another thread may be reading the old ones.
        self._validators = {
            name: v
            for name, v in self._validators.items()
            if remaining.get(name) is self._tools[name]
        }
        self._tools, self._canonical, self._views = remaining, names, {}
        return tuple(conflicts)

    def view(
        self,
        lane: str,
        allowed: frozenset[str] | None = None,
        hidden: frozenset[str] = frozenset(),
        *,
        short: bool = False,
        conversations: Destinations = (),
        agents: tuple[str, ...] = (),
        harnesses: HarnessOffers = (),
    ) -> bytes:
        """Return a lane's tools as a JSON list for the model; the same arguments give identical bytes.

        `allowed` (canonical names) restricts the list to a skill state's tools and the tools that
        are allowed in every state. `hidden` ones are always omitted: they cannot work at present.
        With `short`, descriptions and parameters are those for a small context window. `conversations` are
        the other ones to which messages may be sent, `agents` those that may be asked, and `harnesses` those
        that may do core jobs.
        """
        key = (is_edge(lane), short, allowed, hidden, conversations, agents, harnesses)
        view = self._views.get(key)
        if view is None:
            if len(self._views) >= MAX_VIEWS:
                # Dictionaries keep insertion order: this removes the oldest view.
                self._views.pop(next(iter(self._views)))
            offered = [
                _offer_names(self._tools[name].manifest, conversations, agents, harnesses)
                for name in sorted(self._tools)
                if name not in hidden and self.is_offered(name, lane, allowed)
            ]
            view = self._views[key] = model_view(
                map(shorten_manifest, offered) if short else offered
            )
        return view

    def is_offered(self, name: str, lane: str, allowed: frozenset[str] | None = None) -> bool:
        """Return whether the view of that lane contains a canonical name."""
        tool = self._tools.get(name)
        if tool is None:
            return False
        runtime = tool.manifest.runtime
        fits = runtime.lanes in ("both", "edge" if is_edge(lane) else "core")
        return (
            fits
            and not runtime.harness
            and (allowed is None or name in allowed or runtime.in_skills)
        )

    def canonical(self, name: str) -> str | None:
        """Return the canonical name for a canonical or model name, or None."""
        return self._canonical.get(name)

    def model_name(self, name: str) -> str | None:
        """Return the model's name for a canonical name, or None."""
        return model_name(name) if name in self._tools else None

    def find(self, name: str) -> Tool | None:
        """Return the tool with a canonical name, or None."""
        return self._tools.get(name)

    @property
    def canonical_names(self) -> list[str]:
        """The canonical names of all tools, sorted."""
        return sorted(self._tools)

    def tools_of_jobs(self) -> tuple[str, ...]:
        """Return the canonical names of the tools that core jobs may use now, sorted."""
        return tuple(
            manifest.name
            for manifest in self.manifests()
            if manifest.runtime.lanes != "edge" and not manifest.runtime.harness
        )

    def manifests(self) -> list[ToolManifest]:
        """Return all manifests, sorted by name."""
        return [self._tools[name].manifest for name in sorted(self._tools)]

    def names(self, lane: str, hidden: frozenset[str] = frozenset()) -> list[str]:
        """Return the sorted model names of a lane's tools, without hidden ones."""
        visible_names = (
            name for name in self._tools if name not in hidden and self.is_offered(name, lane)
        )
        return sorted(map(model_name, visible_names))

    def faults(self, name: str, arguments: JsonObject) -> list[str]:
        """Return the schema violations of a call as texts.

        Blocks: the first call imports the validator library, so the arbiter calls this in a thread.
        """
        validators, tool = self._validators, self._tools.get(name)
        if tool is None:
            return ["input: the tool was withdrawn a moment ago"]
        validator = validators.get(name)
        if validator is None:
            parameters = tool.manifest.llm.parameters
            validator = validators[name] = SchemaValidator(parameters, root="input")
        return [*validator.violations(arguments)]


def _offer_names(
    manifest: ToolManifest,
    conversations: Destinations,
    agents: tuple[str, ...],
    harnesses: HarnessOffers,
) -> ToolManifest:
    """Return the manifest with the names that its arguments may have here."""
    manifest = offer_agents(offer_destinations(manifest, conversations), agents)
    return offer_harnesses(manifest, harnesses)


def _names_of(names: Iterable[str]) -> dict[str, str]:
    """Return the canonical names by every name that a model may use."""
    canonical = {name: name for name in names}
    return canonical | {model_name(name): name for name in canonical}
