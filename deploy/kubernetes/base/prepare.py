"""Preparation of a cluster: the services' secrets, and control's state directory. Existing ones stay.

`secrets`, in the Job `setup`: creates the Secret `choir-secrets` through the API, in one request, so that
its parts always belong together. `home`, before control starts: creates the state directory and writes
the secrets of control with the named secrets of secrets.json.
"""

import asyncio
import base64
import datetime
import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from choir_common.errors import StartupError
from choir_common.ids import SERVICE_NAMES
from choir_common.stack_secrets import (
    GATEWAY_TOKEN,
    OPERATOR_TOKEN,
    POSTGRES_ADMIN,
    RESERVED_SECRETS,
    bus_key,
)
from choir_local.bus_users import render_authorization, service_users
from choir_local.model_choice import choose_model
from choir_local.settings import LocalSettings
from choir_local.stack_secrets import create_secret
from choirctl.start.state_directory import create_state_directory

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SECRET = "choir-secrets"  # noqa: S105 - its name
DATABASE_SECRET = "choir-postgres"  # noqa: S105 - its name
"""The database's user and password again, in the form that CloudNativePG reads."""
OWN = Path("/run/choir-keys/control.json")
"""Control's part of the Secret."""
TOLD = Path("/run/choir-secrets")
"""A directory in memory, which control reads."""
REHEARSAL_URL = "http://rehearsal:8080/v1"
REQUEST_S = 30
CERTIFICATE_DAYS = 3650
CLOCK_TOLERANCE = datetime.timedelta(hours=1)


def say(text: str) -> None:
    """Print a message for `kubectl logs`."""
    sys.stderr.write(f"{text}\n")


def make_secrets() -> dict[str, str]:
    """Return new secrets, one entry per file that a service mounts."""
    names = (POSTGRES_ADMIN, GATEWAY_TOKEN, *(bus_key(service) for service in SERVICE_NAMES))
    own = {name: create_secret(name) for name in names}
    keys = {service: {"nats_key": own[bus_key(service)]} for service in SERVICE_NAMES}
    database = {"postgres_password": own[POSTGRES_ADMIN]}
    gateway = {"gateway_token": own[GATEWAY_TOKEN]}
    token = create_secret(GATEWAY_TOKEN)
    certificate, private_key = make_certificate("egress")
    egress = {"egress_token": token, "egress_certificate": certificate}
    proxy = {"token": token, "certificate": certificate, "private_key": private_key}
    return {
        "control.json": json.dumps({**keys["control"], **database, **gateway, **egress}),
        "egress.json": json.dumps(proxy),
        "memory.json": json.dumps({**keys["memory"], **database}),
        "gateway.json": json.dumps({**keys["gateway"], **gateway, "secrets": {}}),
        "browser.json": json.dumps(keys["browser"]),
        "postgres-password": own[POSTGRES_ADMIN],
        "nats-users.conf": render_authorization(service_users(own)),
        "nats-cluster.conf": render_cluster(create_secret(GATEWAY_TOKEN)),
    }


def make_certificate(name: str) -> tuple[str, str]:
    """Return a certificate for a host that signed it itself, with its key, as PEM; its clients pin it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_TOLERANCE)
        .not_valid_after(now + datetime.timedelta(days=CERTIFICATE_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), private.decode()


def render_cluster(password: str) -> str:
    """Return the line `cluster` of NATS' configuration, for three servers."""
    servers = [f"nats://route:{password}@nats-{number}.nats-peers:6222" for number in range(3)]
    account = {"user": "route", "password": password}
    cluster = {"name": "choir", "port": 6222, "authorization": account, "routes": servers}
    return f"cluster: {json.dumps(cluster)}\n"


def request(method: str, path: str, body: object = None) -> tuple[int, bytes]:
    """Ask the API server as this pod's account; return the status and the answer."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    namespace = (ACCOUNT / "namespace").read_text().strip()
    asked = urllib.request.Request(
        f"https://{host}:{port}/api/v1/namespaces/{namespace}/secrets{path}",
        None if body is None else json.dumps(body).encode(),
        {
            "Authorization": f"Bearer {(ACCOUNT / 'token').read_text().strip()}",
            "Content-Type": "application/json",
        },
        method=method,
    )
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    # Python 3.13 refuses authorities without a key identifier, which many clusters have
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    try:
        with urllib.request.urlopen(asked, timeout=REQUEST_S, context=context) as answer:  # noqa: S310
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def create(name: str, values: dict[str, str], kind: str = "Opaque") -> None:
    """Create a Secret; one that exists stays. Raises StartupError."""
    metadata = {"name": name, "labels": {"app.kubernetes.io/part-of": "choir"}}
    body = {"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": metadata}
    status, answer = request("POST", "", {**body, "stringData": values})
    if status not in (HTTPStatus.CREATED, HTTPStatus.CONFLICT):
        raise StartupError(f"Cannot create the Secret {name}: {status} {answer.decode()[:500]}")
    say(f"{'made' if status == HTTPStatus.CREATED else 'kept'} the Secret {name}")


def prepare_secrets() -> None:
    """Create the Secrets of the services. Raises StartupError."""
    create(SECRET, make_secrets())
    status, answer = request("GET", f"/{SECRET}")
    if status != HTTPStatus.OK:
        raise StartupError(f"Cannot read the Secret {SECRET}: {status} {answer.decode()[:500]}")
    password = base64.b64decode(json.loads(answer)["data"]["postgres-password"]).decode()
    database = {"username": "choir", "password": password}
    create(DATABASE_SECRET, database, "kubernetes.io/basic-auth")


def prepare_home() -> None:
    """Create the state directory, and write what control is told. Raises StartupError."""
    home = Path(os.environ["CHOIR_HOME"])
    for path in create_state_directory(home).paths:
        say(f"made {path}")
    stored = json.loads((home / "secrets.json").read_text())
    named = {name: value for name, value in stored.items() if name not in RESERVED_SECRETS}
    model = asyncio.run(choose_model(LocalSettings.load(), named, REHEARSAL_URL))
    say(f"the model `default` is {model.description}")
    supplied = {name: value for name, value in model.secrets.items() if named.get(name) != value}
    secrets = {
        **json.loads(OWN.read_text()),
        "operator_token": stored[OPERATOR_TOKEN],
        "secrets": named,
        "supplied": supplied,
    }
    (TOLD / "secrets.json").write_text(json.dumps(secrets))
    told = {"CHOIR_DEFAULT_MODEL": model.config.model_dump_json()}
    (TOLD / "settings.json").write_text(json.dumps(told))


def main() -> int:
    """Prepare what the argument names; return the exit code."""
    try:
        {"secrets": prepare_secrets, "home": prepare_home}[sys.argv[1]]()
    except StartupError as error:
        say(error.message)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
