"""The INIT_HELLO request of this process."""

from pathlib import Path

from choir_common.identity_dir import SKILLS_DIR, TOOLS_DIR, hash_directory, read_version
from choir_common.wire.rpc import AgentStartParameters, HelloRequest


def build_hello_request(boot: AgentStartParameters) -> HelloRequest:
    """Return the request.

    The version and the manifest hashes are those of /choir itself, so that control can detect an image that
    differs from the boot line.
    """
    choir_dir = Path(boot.choir_dir)
    version = read_version(choir_dir)
    return HelloRequest(
        agent_id=boot.agent_id,
        session_id=boot.session_id,
        epoch=boot.epoch,
        image_version=version.image_version if version else boot.image_version,
        tool_manifest_hash=hash_directory(choir_dir / TOOLS_DIR),
        skill_manifest_hash=hash_directory(choir_dir / SKILLS_DIR),
    )
