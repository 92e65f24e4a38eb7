"""All tools of this agent, found by either of their names, and checked inputs (spec 8.2, 8.8).

Built by `app`, immutable afterwards. OpenAI's function names may not hold dots, so the model sees
`choir_fs_read`; the way back goes through the table made here, never through string surgery.
"""

import hashlib
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Protocol, cast

import orjson

from choir_agent.log.state import EDGE
from choir_agent.tools.manifest import ToolManifest
from choir_agent.tools.model_view import model_name_of, model_view
from choir_agent.tools.tool import Tool
from choir_common.errors import StartupError
from choir_common.wire.json import JsonObject

# a lane's view is asked for at every model call; skills' states and jobs' constraints are few
MAX_VIEWS = 64


class _Schemas(Protocol):
    def faults(self, name: str, arguments: JsonObject) -> list[str]: ...


class _SchemasModule(Protocol):
    def Schemas(self, parameters: Mapping[str, JsonObject]) -> _Schemas: ...  # noqa: N802 - a class


class Registry:
    """The tools, their validators and the model's view of them."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.manifest.name: tool for tool in tools}
        self._canonical = {name: name for name in self._tools}
        self._canonical |= {model_name_of(name): name for name in self._tools}
        if len(self._canonical) != 2 * len(tools):
            raise StartupError("Two tools have names that a model could not tell apart.")
        self._schemas: _Schemas | None = None
        self._views: dict[tuple[bool, frozenset[str] | None, frozenset[str]], bytes] = {}
        manifests = [self._tools[name].manifest for name in sorted(self._tools)]
        self.manifest_hash = hashlib.sha256(
            orjson.dumps([asdict(manifest) for manifest in manifests], option=orjson.OPT_SORT_KEYS)
        ).hexdigest()

    def view(
        self,
        lane: str,
        allowed: frozenset[str] | None = None,
        hidden: frozenset[str] = frozenset(),
    ) -> bytes:
        """Return a lane's tools as a model sees them: a JSON list of the same bytes at every call.

        `allowed` (canonical names) narrows it to a skill state's tools, beside which stand those
        that move the skill. `hidden` ones are left out in any case: they cannot work at present.
        """
        key = (lane == EDGE, allowed, hidden)
        view = self._views.get(key)
        if view is None:
            if len(self._views) >= MAX_VIEWS:
                self._views.pop(next(iter(self._views)))
            offered = (
                name
                for name in sorted(self._tools)
                if name not in hidden and self.offers(name, lane, allowed)
            )
            view = self._views[key] = model_view(self._tools[name].manifest for name in offered)
        return view

    def offers(self, name: str, lane: str, allowed: frozenset[str] | None = None) -> bool:
        """Tell whether a canonical name stands in the view of that lane."""
        tool = self._tools.get(name)
        if tool is None:
            return False
        runtime = tool.manifest.runtime
        fits = runtime.lanes in ("both", "edge" if lane == EDGE else "core")
        return fits and (allowed is None or name in allowed or runtime.in_skills)

    def canonical(self, name: str) -> str | None:
        """Return the canonical name for either name of a tool, or None."""
        return self._canonical.get(name)

    def model_name(self, name: str) -> str | None:
        """Return the model's name of a canonical one, or None."""
        return model_name_of(name) if name in self._tools else None

    def find(self, name: str) -> Tool | None:
        """Return the tool of a canonical name."""
        return self._tools.get(name)

    def manifests(self) -> list[ToolManifest]:
        """Return all manifests, sorted by name."""
        return [self._tools[name].manifest for name in sorted(self._tools)]

    def names(self, lane: str, hidden: frozenset[str] = frozenset()) -> list[str]:
        """Return the names that a lane's model knows its tools by, sorted, but for hidden ones."""
        shown = (name for name in self._tools if name not in hidden and self.offers(name, lane))
        return sorted(map(model_name_of, shown))

    def faults(self, name: str, arguments: JsonObject) -> list[str]:
        """Return what does not fit the tool's schema, in words; the first use takes a moment."""
        if self._schemas is None:
            # see schemas.py for why so late; checks run in a thread, so nothing waits for this
            module = cast(_SchemasModule, importlib.import_module("choir_agent.tools.schemas"))
            self._schemas = module.Schemas(
                {name: tool.manifest.llm.parameters for name, tool in self._tools.items()}
            )
        return self._schemas.faults(name, arguments)
