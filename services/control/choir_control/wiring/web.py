"""Wiring of the web page's sign-in."""

from choir_common.clock import Clock
from choir_common.egress.addresses import parse_allowlist
from choir_common.egress.dialer import Dialer
from choir_common.postgres.pool import Database
from choir_control.api.operator.browser_streams import BrowserLimits
from choir_control.api.operator.web_cookies import WebCookies
from choir_control.api.operator.web_origins import WebOrigins
from choir_control.configuration.current import ConfigService
from choir_control.settings import ControlSettings
from choir_control.web.push.client import PushClient
from choir_control.web.push.notifier import PushNotifier
from choir_control.web.push.presence import PresenceTracker
from choir_control.web.push.service import PushService
from choir_control.web.push.store import PushStore
from choir_control.web.service import WebSessionService
from choir_control.web.store import WebSessionStore

CONTACT = "mailto:operator@choir.invalid"
"""For push services, which want an address; an installation has none that it should tell them."""


class PushServices:
    """Notifications of browsers."""

    def __init__(
        self,
        *,
        settings: ControlSettings,
        database: Database,
        configuration: ConfigService,
        clock: Clock,
    ) -> None:
        store = PushStore(database)
        allow = parse_allowlist(settings.web_push_allow, "CHOIR_WEB_PUSH_ALLOW")
        client = PushClient(Dialer(allow))
        self.presence = PresenceTracker(clock)
        self.service = PushService(store, client)
        self.notifier = PushNotifier(
            store,
            service=self.service,
            client=client,
            presence=self.presence,
            configuration=configuration,
            subject=CONTACT,
            clock=clock,
        )


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
        self.push = PushServices(
            settings=settings, database=database, configuration=configuration, clock=clock
        )
