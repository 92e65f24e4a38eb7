"""Find Chromium, and define its command-line flags.

Called by chromium.py at launch and by endpoints.py for readiness.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from choir_common.errors import Unavailable
from choir_common.extras import install_command
from choir_common.i18n import _
from choir_common.wire.browser import CHROMIUM_NAMES

NO_PLAYWRIGHT = _("The browser is not installed. Install it with `{command}`.").format(
    command=install_command("browser")
)

# Chromium uses only the last of several lists, which is ours, so it repeats Playwright's.
PLAYWRIGHT_DISABLED_FEATURES: Sequence[str] = (
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable",
    "LensOverlay",
    "MediaRouter",
    "PaintHolding",
    "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "TcpPortRandomizationWin",
    "OptimizationHints",
    "NetworkTimeServiceQuerying",
    "AimEnabled",
    "PreconnectToSearch",
    "msForceBrowserSignIn",
    "msEdgeUpdateLaunchServicesPreferredVersion",
)
# The address bar's suggestion list is a page with its own process in each window: half a second of
# processor time and 150 MB. Nobody types an address here.
DISABLED_FEATURES: Sequence[str] = (
    *PLAYWRIGHT_DISABLED_FEATURES,
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxFullPopup",
)

# Only pages may use the network, and only through the proxy.
FLAGS: Sequence[str] = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-features=" + ",".join(DISABLED_FEATURES),
    "--disable-gpu",
    "--disable-quic",  # QUIC and WebTransport use UDP, which bypasses an HTTP proxy
    "--disable-sync",
    "--dns-prefetch-disable",
    "--no-first-run",
    "--no-pings",
    "--disable-webrtc",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
)


def find_chromium(executable: Path | None, playwright_path: Path | None) -> Path:
    """Return the Chromium to use: the setting's, Playwright's own, else the distribution's.

    Raises Unavailable with instructions to install one.
    """
    if executable is not None:
        if os.access(executable, os.X_OK) and executable.is_file():
            return executable
        raise Unavailable(
            _("CHOIR_CHROMIUM names {executable}, which is not an executable program.").format(
                executable=executable
            )
        )
    if playwright_path is not None and playwright_path.is_file():
        return playwright_path
    for name in CHROMIUM_NAMES:
        path = shutil.which(name)
        if path is not None:
            return Path(path)
    raise Unavailable(
        _(
            "No Chromium was found. Install it (`apt install chromium`, or `playwright install chromium`), "
            "or set CHOIR_CHROMIUM to the program."
        )
    )
