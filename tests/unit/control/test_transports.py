"""Which transport a deployment gets, and what is refused before anything listens."""

import datetime
import ssl
from pathlib import Path

import pytest

from choir_common.errors import InvalidRequest, StartupError
from choir_common.http.client import ssl_context_for
from choir_control.agents.runtimes.port import ControlAddress, LaunchSpec
from choir_control.api.transports import own_files
from choir_control.api.transports.authority import issue_certificate
from choir_control.api.transports.own_files import CertificateFiles
from choir_control.api.transports.tls import certificate_names, load_server_tls, uses_tls
from choir_control.settings import ControlSecrets, ControlSettings, check_exposure
from choirctl.commands.tls import fingerprint_of

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
TOKEN = ControlSecrets(operator_token="x" * 20)


@pytest.mark.parametrize(
    ("host", "tls", "speaks"),
    [
        ("127.0.0.1", "auto", False),
        ("::1", "auto", False),
        ("localhost", "auto", False),
        ("0.0.0.0", "auto", True),
        ("choird.internal", "auto", True),
        ("127.0.0.1", "on", True),
        ("127.0.0.1", "off", False),
    ],
)
def test_tls_is_spoken_wherever_another_machine_could_listen(
    host: str, tls: str, speaks: bool
) -> None:
    assert uses_tls(ControlSettings(http_host=host, tls=tls)) is speaks


def test_plain_http_is_refused_where_other_machines_hear_it() -> None:
    with pytest.raises(StartupError, match="CHOIR_TLS is off"):
        check_exposure(ControlSettings(http_host="0.0.0.0", tls="off"), TOKEN)
    check_exposure(ControlSettings(http_host="0.0.0.0"), TOKEN)
    check_exposure(ControlSettings(http_host="127.0.0.1", tls="off"), ControlSecrets())


def test_a_certificate_without_its_key_or_with_another_is_refused(tmp_path: Path) -> None:
    mine, other = CertificateFiles(tmp_path / "mine"), CertificateFiles(tmp_path / "other")
    issue_certificate(mine, ["localhost"], NOW)
    issue_certificate(other, ["localhost"], NOW)
    brought = {"home": tmp_path, "tls_cert": str(mine.certificate)}
    for key, said in (
        ("", "belong together"),
        (str(other.key), "cannot be used"),
        (str(tmp_path / "none"), "cannot be used"),
    ):
        with pytest.raises(StartupError, match=said):
            load_server_tls(ControlSettings(**brought, tls_key=key), NOW)  # type: ignore[arg-type]
    kept = load_server_tls(ControlSettings(**brought, tls_key=str(mine.key)), NOW)  # type: ignore[arg-type]
    assert kept is not None and kept.trusted_pem == mine.certificate.read_text()


def test_a_damaged_authority_is_said_and_not_replaced(tmp_path: Path) -> None:
    files = CertificateFiles(tmp_path / "tls")
    issue_certificate(files, ["localhost"], NOW)
    files.authority.write_text("nonsense")
    with pytest.raises(StartupError, match="must then trust the new certificate"):
        issue_certificate(files, ["localhost"], NOW)
    assert files.authority.read_text() == "nonsense"


def test_a_process_waits_for_the_files_only_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_files, "LOCK_TIMEOUT_S", 0.01)
    files = CertificateFiles(tmp_path / "tls")
    with files.locked():
        with pytest.raises(StartupError, match=r"tls/\.lock locked for 0\.01 s"), files.locked():
            pass
    with files.locked():
        pass


def test_its_own_certificate_names_what_clients_call_it() -> None:
    settings = ControlSettings(
        http_host="0.0.0.0",
        tls_names="choir.example, 10.0.0.7",
        control_endpoint="https://choird.internal:9400",
    )
    names = certificate_names(settings)
    assert {"localhost", "127.0.0.1", "choir.example", "10.0.0.7", "choird.internal"} < {*names}
    assert "0.0.0.0" not in names and "" not in names


def test_what_is_pinned_is_trusted_and_nothing_else(tmp_path: Path) -> None:
    files = CertificateFiles(tmp_path / "tls")
    issue_certificate(files, ["localhost"], NOW)
    context = ssl_context_for(files.authority.read_text())
    assert context.verify_mode is ssl.CERT_REQUIRED and context.check_hostname
    assert len(context.get_ca_certs()) == 1
    with pytest.raises(InvalidRequest, match="cannot be parsed"):
        ssl_context_for("nonsense")


def test_an_agent_gets_its_socket_or_the_http_way() -> None:
    spec = LaunchSpec("main", "ses", 1, "token", Path("/w"), Path("/c"), Path("/s"))
    assert spec.control_address("/run/choir") == ControlAddress("unix:///run/choir/choir.sock", "")
    way = ControlAddress("https://control:9400", "pem")
    over = LaunchSpec("main", "ses", 1, "token", Path("/w"), Path("/c"), Path("/s"), http=way)
    assert over.control_address("/run/choir") is way


def test_the_fingerprint_is_what_openssl_shows(tmp_path: Path) -> None:
    files = CertificateFiles(tmp_path / "tls")
    issue_certificate(files, ["localhost"], NOW)
    shown = fingerprint_of(files.authority.read_text())
    assert len(shown) == 95 and set(shown) <= set("0123456789ABCDEF:")


def test_other_users_may_read_the_authoritys_certificate_and_nothing_else(tmp_path: Path) -> None:
    """A container of Prometheus gets this file alone, and has a user of its own."""
    files = CertificateFiles(tmp_path / "tls")
    issue_certificate(files, ["localhost"], NOW)
    modes = {path.name: path.stat().st_mode & 0o777 for path in files.directory.iterdir()}
    assert modes.pop("ca.pem") == 0o644
    assert set(modes.values()) == {0o600} and files.directory.stat().st_mode & 0o777 == 0o700
    files.authority.chmod(0o600)  # of an earlier version
    issue_certificate(files, ["localhost"], NOW)
    assert files.authority.stat().st_mode & 0o777 == 0o644
