"""Wiring of the tools that run in control: memory, browser and log search."""

from choir_common.bus.client import Bus
from choir_common.clients.browser import NatsBrowserClient
from choir_common.clients.memory import NatsMemoryClient
from choir_common.postgres.pool import Database
from choir_common.telemetry import Redactor
from choir_control.agents.host_tools.browse import make_browse_tool
from choir_control.agents.host_tools.execute import HostToolExecutor
from choir_control.agents.host_tools.log_search import LogSearchStore, LogSearchTool
from choir_control.agents.host_tools.memory import MemoryTools
from choir_control.configuration.current import ConfigService
from choir_control.settings import ControlSettings


class HostToolServices:
    """The host tools, and the clients of the services behind them."""

    def __init__(
        self,
        *,
        settings: ControlSettings,
        configuration: ConfigService,
        database: Database,
        bus: Bus,
        redactor: Redactor,
    ) -> None:
        self.memory = NatsMemoryClient(bus)
        self.browser = NatsBrowserClient(bus)
        self.memory_tools = MemoryTools(self.memory, redactor)
        self.browse_tool = make_browse_tool(self.browser, settings, configuration)
        self.executor = HostToolExecutor(
            memory=self.memory_tools,
            browse=self.browse_tool,
            log_search=LogSearchTool(LogSearchStore(database)),
        )
