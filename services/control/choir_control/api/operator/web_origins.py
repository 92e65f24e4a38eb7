"""Checks of the headers Host and Origin of browsers' requests.

A page of another site cannot send these with our values. Host prevents DNS rebinding: the attacker's name
leads to this address then, but the browser still sends the name. Numeric addresses cannot be rebound.
"""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from choir_common.errors import Forbidden
from choir_common.i18n import _
from choir_control.settings import ControlSettings

SAME_SITE = ("", "same-origin", "none")
"""Values of Sec-Fetch-Site: absent, from our page, or typed by the user."""


class WebOrigins:
    """The hosts and origins under which browsers may reach the web page."""

    def __init__(self, settings: ControlSettings) -> None:
        self._public = tuple(
            address.strip().rstrip("/")
            for address in settings.web_addresses.split(",")
            if address.strip()
        )
        names = (*settings.tls_names.split(","), settings.http_host)
        self._hosts = {name.strip().lower() for name in names if name.strip()}
        self._hosts |= {(urlsplit(address).hostname or "") for address in self._public}
        self._origins = {_origin_of(address) for address in self._public}

    def public_address(self, local: str) -> str:
        """Return the address for links: the first configured one, or else `local`."""
        return self._public[0] if self._public else local

    def check(self, headers: Mapping[str, str], *, changing: bool) -> None:
        """Raise Forbidden for a request that a page of another site may have sent.

        `changing` requests must have the header Origin.
        """
        host = headers.get("host", "")
        if not self._is_own_host(host):
            raise Forbidden(
                _(
                    "Choir is not available as {host!r}. Add its address to CHOIR_WEB_ADDRESSES."
                ).format(host=host[:100])
            )
        origin = headers.get("origin")
        if origin is None and changing:
            raise Forbidden(_("The request has no header Origin."))
        is_own = origin is None or origin in self._origins or self._is_local(origin, host)
        if not is_own or headers.get("sec-fetch-site", "") not in SAME_SITE:
            raise Forbidden(_("The request comes from another page."))

    def _is_local(self, origin: str, host: str) -> bool:
        """Return whether the page came from `host` itself, which is no configured address."""
        return origin.partition("://")[2] == host and not any(
            it.partition("://")[2] == host for it in self._origins
        )

    def _is_own_host(self, host: str) -> bool:
        name = _hostname(host)
        if name == "localhost" or name.endswith(".localhost") or name in self._hosts:
            return bool(name)
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _hostname(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _origin_of(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}".lower()
