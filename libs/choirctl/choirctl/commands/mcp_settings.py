"""The servers of `mcp.servers` in config.json, for the commands that change them."""

import json
from pathlib import Path
from typing import Annotated

from pydantic import JsonValue, ValidationError

from choir_common.errors import InvalidRequest, NotFound
from choir_common.i18n import _
from choir_common.wire.config import Config
from choir_common.wire.validation_messages import error_messages
from choirctl.arguments import config_name_option

SERVERS = "mcp.servers"
ACTIVATE = _("Activate it with `choirctl config load`, then `choirctl config apply`.")

Agents = Annotated[
    list[str] | None,
    config_name_option(
        "--agent", "Who may use it; repeat it for several. Default: the only agent.", "agents"
    ),
]


def read_config(file: Path) -> Config:
    """Return the file's settings; raises NotFound or InvalidRequest."""
    try:
        return Config.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        raise NotFound(
            _("There is no {file}. `choirctl init` makes a first one.").format(file=file)
        ) from None
    except ValidationError as error:
        raise InvalidRequest(
            _("{file} is invalid: {error_messages}").format(
                file=file, error_messages=error_messages(error, "the file")[0]
            )
        ) from None


def raw_servers(file: Path) -> dict[str, JsonValue]:
    """Return the servers as they are in the file, without the defaults of their fields."""
    read_config(file)
    servers: dict[str, JsonValue] = json.loads(file.read_bytes()).get("mcp", {}).get("servers", {})
    return servers


def only_agent(config: Config) -> list[str]:
    """Return the only agent; raises InvalidRequest if there are several."""
    if len(config.agents) != 1:
        raise InvalidRequest(
            _("Say who may use it: --agent {names}.").format(
                names=" or --agent ".join(sorted(config.agents))
            )
        )
    return [*config.agents]
