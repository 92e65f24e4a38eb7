"""Real mail servers for tests: aiosmtpd with TLS and login, and a private dovecot as a child process.

Both listen on loopback with a self-signed certificate, which the caller trusts through SSL_CERT_FILE.
"""

import asyncio
import base64
import contextlib
import grp
import os
import pwd
import re
import shutil
import ssl
import subprocess
import tempfile
import warnings
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Literal

import psutil
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.support.ports import free_port

HOST = "127.0.0.1"
PROGRAMS = "/usr/sbin:/usr/local/sbin:/usr/bin"
USER = "main@choir.test"
PASSWORD = "pass:word+/ü"
Security = Literal["tls", "starttls", "none"]
DataFault = Literal["busy", "limit", "drop before", "drop after"]
DATA_RESPONSES: dict[DataFault, str] = {
    "busy": "451 4.3.0 Try again later",
    "limit": "450 4.7.1 Too many messages",
}


@dataclass(frozen=True)
class Certificate:
    """A self-signed certificate for loopback."""

    cert: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        """Return the TLS context for a server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        return context


def make_certificate(root: Path, *, names: str = "DNS:localhost,IP:127.0.0.1") -> Certificate:
    """Create a self-signed certificate for `names`."""
    made = Certificate(root / "cert.pem", root / "key.pem")
    # an elliptic curve: a key of RSA takes a hundred times as long
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
    ]
    command += [
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-addext",
        f"subjectAltName={names}",
    ]
    command += ["-keyout", str(made.key), "-out", str(made.cert)]
    subprocess.run(command, check=True, capture_output=True)
    return made


@dataclass
class SmtpHandler:
    """Handler of the SMTP server: records messages, and answers as scripted per recipient and message."""

    port: int = 0
    received: list[Envelope] = field(default_factory=list)
    rcpt_answers: dict[str, str] = field(default_factory=dict)
    """Responses by recipient address, such as `550 no such user`; other recipients are accepted."""
    data_answer: str = "250 queued"
    drop_after_data: bool = False
    """Accept the message, then close the connection without a response."""
    hang_after_data: bool = False
    """Accept the message and send no response until the client disconnects."""
    faults: list[DataFault] = field(default_factory=list)
    """What happens to the next messages, one each."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client disconnects while `hang_after_data` delays the response."""

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        answer = self.rcpt_answers.get(address, "250 ok")
        if answer.startswith("2"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        fault = self.faults.pop(0) if self.faults else None
        if fault in DATA_RESPONSES:
            return DATA_RESPONSES[fault]
        if self.data_answer.startswith("2") and fault != "drop before":
            self.received.append(envelope)
        drops = self.drop_after_data or fault is not None
        if drops and server.transport is not None:
            server.transport.abort()
        if self.hang_after_data:
            try:
                await asyncio.sleep(3600)
            finally:
                self.left.set()
        return self.data_answer


def _authenticate(
    server: SMTP, session: Session, envelope: Envelope, mechanism: str, given: object
) -> AuthResult:
    right = LoginPassword(USER.encode(), PASSWORD.encode())
    return AuthResult(success=given == right, handled=False)


@contextlib.asynccontextmanager
async def running_smtp(
    certificate: Certificate | None, security: Security, *, size_limit: int = 30_000_000
) -> AsyncIterator[SmtpHandler]:
    """Serve SMTP with login on a free port while the block runs."""
    postman = SmtpHandler()
    context = certificate.server_context() if certificate else None

    def make() -> SMTP:
        # aiosmtpd warns about logins without STARTTLS, which some tests use on purpose
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return make_protocol()

    def make_protocol() -> SMTP:
        return SMTP(
            postman,
            hostname="mail.choir.test",
            data_size_limit=size_limit,
            authenticator=_authenticate,
            auth_required=True,
            auth_require_tls=security == "starttls",
            require_starttls=security == "starttls",
            tls_context=context if security == "starttls" else None,
            loop=asyncio.get_running_loop(),
        )

    server = await asyncio.get_running_loop().create_server(
        make, HOST, 0, ssl=context if security == "tls" else None
    )
    postman.port = server.sockets[0].getsockname()[1]
    try:
        yield postman
    finally:
        server.close()


def dovecot_missing() -> str:
    """Return why no IMAP server can run here; empty if one can."""
    if shutil.which("dovecot", path=PROGRAMS) is None:
        return "NO DOVECOT: the mailbox tests need it (apt-get install dovecot-imapd)"
    return ""


# Debian 12 has dovecot 2.3; Debian 13 has 2.4, which uses another configuration syntax.
DOVECOT_23 = """\
ssl_cert = <{cert}
ssl_key = <{key}
disable_plaintext_auth = {no_open_login}
mail_location = maildir:{root}/mail
passdb {{
  driver = passwd-file
  args = scheme=PLAIN username_format=%u {root}/users
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={root}/mail
}}
"""
DOVECOT_24 = """\
ssl_server_cert_file = {cert}
ssl_server_key_file = {key}
auth_allow_cleartext = {open_login}
mail_driver = maildir
mail_path = {root}/mail
passdb passwd-file {{
  passwd_file_path = {root}/users
}}
userdb static {{
  fields {{
    uid = {uid}
    gid = {gid}
    home = {root}/mail
  }}
}}
"""
DOVECOT_CONF = """\
protocols = imap
base_dir = {root}/run
state_dir = {root}/state
log_path = {root}/dovecot.log
listen = 127.0.0.1
{identities}
ssl = {ssl}
auth_mechanisms = plain login
auth_failure_delay = 0
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {imap}
  }}
  inet_listener imaps {{
    port = {imaps}
    ssl = {ssl}
  }}
}}
service anvil {{
  chroot =
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
service stats {{
  chroot =
}}
"""


@dataclass
class ImapServer:
    """A running dovecot with one mailbox."""

    imap_port: int
    imaps_port: int
    mail: Path
    log: Path
    pid: int = 0
    delivered: int = 0

    def deliver(self, message: EmailMessage | bytes) -> None:
        """Deliver a message into the inbox."""
        self.delivered += 1
        content = message if isinstance(message, bytes) else message.as_bytes()
        name = f"{1_700_000_000 + self.delivered}.M{self.delivered}.test"
        (self.mail / "tmp" / name).write_bytes(content)
        (self.mail / "tmp" / name).rename(self.mail / "new" / name)

    def disconnect(self) -> None:
        """End the connections of all clients that have logged in."""
        for child in psutil.Process(self.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.name() == "imap":
                    child.kill()

    def renumber(self) -> None:
        """Let the server assign new UIDs, as after the restoration of a mailbox."""
        listing = self.mail / "dovecot-uidlist"
        header = listing.read_text().split("\n")[0]
        validity = int(re.findall(r"V(\d+)", header)[0])
        guid = re.findall(r"G[0-9a-f]+", header)[0]
        listing.write_text(f"3 V{validity + 1} N1 {guid}\n")
        for path in self.mail.glob("dovecot.index*"):
            path.unlink()

    def flags(self) -> list[str]:
        """Return the flags of each message, in order of arrival; `S` means seen."""
        names = [path.name for folder in ("new", "cur") for path in (self.mail / folder).iterdir()]
        return [name.partition(":2,")[2] for name in sorted(names)]


def _dovecot_version() -> str:
    program = shutil.which("dovecot", path=PROGRAMS) or "dovecot"
    output = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    return ".".join(output.stdout.split()[0].split("-")[0].split(".")[:2])


def _without_idle() -> str:
    """Return the setting of a server that does not offer IDLE."""
    if _dovecot_version() == "2.3":
        return "imap_capability = IMAP4rev1 LITERAL+ UIDPLUS MOVE\n"
    return "imap_capability {\n  IDLE = no\n}\n"


def _config_template() -> str:
    """Return the configuration template for the installed version of dovecot."""
    if _dovecot_version() == "2.3":
        return DOVECOT_CONF + DOVECOT_23
    # 2.4 requires its version settings first
    dialect = "dovecot_config_version = 2.4.0\ndovecot_storage_version = 2.4.0\n"
    return dialect + DOVECOT_CONF + DOVECOT_24


def _write_conf(root: Path, certificate: Certificate, server: ImapServer, open_login: bool) -> Path:
    """Write dovecot's files; as root it needs separate users, otherwise it runs as the current user."""
    me = pwd.getpwuid(os.getuid())
    owner = pwd.getpwnam("mail") if me.pw_uid == 0 else me
    group = grp.getgrgid(me.pw_gid).gr_name
    alone = (
        f"default_login_user = {me.pw_name}\ndefault_internal_user = {me.pw_name}\n"
        f"default_internal_group = {group}"
    )
    identities = "first_valid_uid = 1" if me.pw_uid == 0 else alone
    for directory in ("mail", "mail/new", "mail/cur", "mail/tmp"):
        (root / directory).mkdir()
        os.chown(root / directory, owner.pw_uid, owner.pw_gid)
    # base64: the fields of the file are separated by colons, and the password contains one
    hidden = base64.b64encode(PASSWORD.encode()).decode()
    (root / "users").write_text(f"{USER}:{{PLAIN.b64}}{hidden}\n")
    conf = root / "dovecot.conf"
    conf.write_text(
        _config_template().format(
            root=root,
            identities=identities,
            cert=certificate.cert,
            key=certificate.key,
            ssl="no" if open_login else "yes",
            no_open_login="no" if open_login else "yes",
            open_login="yes" if open_login else "no",
            uid=owner.pw_uid,
            gid=owner.pw_gid,
            imap=server.imap_port,
            imaps=server.imaps_port,
        )
    )
    return conf


@contextlib.asynccontextmanager
async def running_imap(
    certificate: Certificate, *, open_login: bool = False, can_idle: bool = True
) -> AsyncIterator[ImapServer]:
    """Run a private dovecot as a child process while the block runs."""
    # a short path: a socket path has 107 bytes at most; readable: dovecot's processes run as other users
    root = Path(tempfile.mkdtemp(prefix="choir-imap-"))
    root.chmod(0o755)
    server = ImapServer(free_port(), free_port(), root / "mail", root / "dovecot.log")
    conf = _write_conf(root, certificate, server, open_login)
    if not can_idle:
        with conf.open("a") as file:
            file.write(_without_idle())
    program = shutil.which("dovecot", path=PROGRAMS)
    assert program, dovecot_missing()
    process = await asyncio.create_subprocess_exec(program, "-F", "-c", str(conf))
    server.pid = process.pid
    try:
        await _answering(server.imap_port, process, server.log)
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
        shutil.rmtree(root, ignore_errors=True)


async def _answering(port: int, process: Process, log: Path) -> None:
    async with asyncio.timeout(60):
        while True:
            assert process.returncode is None, log.read_text() if log.exists() else "no log"
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(HOST, port)
                greeting = await reader.readline()
                writer.close()
                if greeting.startswith(b"* OK"):
                    return
            await asyncio.sleep(0.05)
