"""Wiring of the web page's sign-in."""

from choir_common.clock import Clock
from choir_common.postgres.pool import Database
from choir_control.api.operator.browser_streams import BrowserLimits
from choir_control.api.operator.web_cookies import WebCookies
from choir_control.api.operator.web_origins import WebOrigins
from choir_control.configuration.current import ConfigService
from choir_control.settings import ControlSettings
from choir_control.web.service import WebSessionService
from choir_control.web.store import WebSessionStore


class WebServices:
    """The sessions of browsers, and the checks of their requests."""

    def __init__(
        self,
        *,
        settings: ControlSettings,
        database: Database,
        configuration: ConfigService,
        operator_token: str | None,
        clock: Clock,
    ) -> None:
        self.sessions = WebSessionService(
            WebSessionStore(database),
            configuration=configuration,
            operator_token=operator_token,
            clock=clock,
        )
        self.origins = WebOrigins(settings)
        self.cookies = WebCookies(self.sessions, self.origins)
        self.limits = BrowserLimits()
