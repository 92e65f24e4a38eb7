"""Tools of built images: whether the agent would load them, and how they differ between two images."""

import asyncio
import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from choir_common.i18n import _
from choir_common.identity_dir import TOOLS_DIR
from choir_common.tool_check import raise_refusals, run_tool_check
from choir_common.wire.local_tools import ToolCheckReport, ToolCheckRequest
from choir_common.wire.operations import ToolChanges
from choir_common.wire.repository_files import ToolManifestFile
from choir_control.images.builder import Image

PLACES = ("global", "agent")
"""Directories below /choir/tools; the agent's own tool replaces a global one of the same name."""


class ToolChecker:
    """Asks the agent's loader about the tools of an image, before the image becomes current."""

    async def check(self, image: Image) -> None:
        """Raise InvalidRequest if an agent does not start with the image's tools; Unavailable.

        Images in an engine are not read: the agent checks them when it starts.
        """
        if image.kind == "process":
            await self.read(image.version.agent_id, Path(image.place))

    async def read(self, agent_id: str, choir_dir: Path) -> ToolCheckReport:
        """Return the tools in a /choir; raises as `check` does."""
        if not await asyncio.to_thread(_has_tools, choir_dir):
            return ToolCheckReport()
        request = ToolCheckRequest(directory=str(choir_dir), image=True)
        report = await asyncio.to_thread(run_tool_check, request)
        raise_refusals(
            _("The agent {agent_id} would not start with its tools.").format(agent_id=agent_id),
            report,
        )
        return report


def read_timeouts(choir_dir: Path) -> dict[str, int]:
    """Return the timeout in ms of each tool by its name; invalid manifests are left to the loader. Blocks."""
    timeouts = {}
    for place in PLACES:
        for manifest in sorted((choir_dir / TOOLS_DIR / place).glob("*.json")):
            with contextlib.suppress(OSError, ValidationError):
                read = ToolManifestFile.model_validate_json(manifest.read_bytes())
                timeouts[read.llm.name] = read.runtime.timeout_ms
    return timeouts


def _has_tools(choir_dir: Path) -> bool:
    return any(next((choir_dir / TOOLS_DIR / place).glob("*.json"), None) for place in PLACES)


def compare_tools(before: Image | None, after: Image) -> ToolChanges | None:
    """Return how the tools of two images differ; None for images in an engine. Blocks."""
    if after.kind != "process" or (before is not None and before.kind != "process"):
        return None
    old = dict(_digests(Path(before.place))) if before else {}
    new = dict(_digests(Path(after.place)))
    return ToolChanges(
        new=tuple(sorted(new.keys() - old.keys())),
        changed=tuple(sorted(name for name in new.keys() & old.keys() if new[name] != old[name])),
        removed=tuple(sorted(old.keys() - new.keys())),
    )


def _digests(choir_dir: Path) -> Iterator[tuple[str, str]]:
    """Yield each tool's name with a hash of its files: manifest, program, and the folder of its name."""
    for place in PLACES:
        top = choir_dir / TOOLS_DIR / place
        for manifest in sorted(top.glob("*.json")):
            try:
                read = ToolManifestFile.model_validate_json(manifest.read_bytes())
            except (OSError, ValidationError):
                continue
            stem = manifest.with_suffix("")
            files = {manifest, stem, top / (read.runtime.exec_path or stem.name)}
            files |= set(stem.rglob("*"))
            digest = hashlib.sha256()
            for path in sorted(path for path in files if path.is_file()):
                digest.update(
                    f"{path.relative_to(top) if path.is_relative_to(top) else path}\0".encode()
                )
                digest.update(hashlib.sha256(path.read_bytes()).digest())
            yield read.llm.name, digest.hexdigest()
