"""Environment of the mail tools: an account, a certificate they trust, a workspace.

Fixtures and makers of the tests that send mail and of those that read it; both import them.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from choir_agent.tools.tool import CallContext
from choir_agent.tools.workspace import Workspace
from choir_common.wire.config import AgentSettings, Budgets, EmailConfig, MailSecurity, ModelConfig
from choir_common.wire.model import JsonObject
from tests.support.mail import (
    PASSWORD,
    USER,
    Certificate,
    dovecot_missing,
    make_certificate,
)

needs_dovecot = pytest.mark.skipif(bool(dovecot_missing()), reason=dovecot_missing())
MAIL: JsonObject = {"to": ["ann@choir.test"], "subject": "Tea", "text": "At four.\n"}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(autouse=True)
def trusted(certificate: Certificate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.cert))


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    (tmp_path / "ws").mkdir()
    made = Workspace(tmp_path / "ws")
    yield made
    made.close()


def make_context(
    port: int,
    security: MailSecurity,
    *,
    host: str = "127.0.0.1",
    secret: str = f"{USER}:{PASSWORD}",
) -> CallContext:
    """Make the context of a call whose account has both servers at one port."""
    account = EmailConfig(
        smtp_host=host,
        smtp_port=port,
        imap_host=host,
        imap_port=port,
        sharing="shared",
        secret="mail",
        smtp_security=security,
        imap_security=security,
    )
    settings = AgentSettings(
        model_name="default",
        model=ModelConfig(model="m", endpoint="http://127.0.0.1:1"),
        budgets=Budgets(),
        heartbeat_interval_ms=1000,
        rate_limit_retry_ms=1000,
        event_window=50,
        email=account,
    )
    return CallContext("call_1", "edge", settings=settings, secrets={"email": secret})
