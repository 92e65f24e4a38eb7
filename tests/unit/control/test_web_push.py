"""Encryption and signature of notifications against the example of RFC 8291, and who counts as present."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from choir_common.clock import SystemClock
from choir_common.egress.addresses import parse_allowlist
from choir_common.egress.dialer import Dialer
from choir_common.errors import InvalidRequest
from choir_control.web.push.client import PushClient
from choir_control.web.push.encryption import (
    SubscriptionSecrets,
    decode_base64url,
    encode_base64url,
    encrypt_message,
)
from choir_control.web.push.presence import LASTS, PresenceTracker
from choir_control.web.store import WebSession

# RFC 8291, section 5 and appendix A
P256DH = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
AUTH = "BTBZMqHH6r4Tts7J_aSIgg"
SALT = "DGv6ra1nlYgDCS1FRnbzlw"
PRIVATE = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
BODY = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6Tlz"
    "AC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
INTERNAL = (
    "http://8.8.8.8/push",
    "https://127.0.0.1/push",
    "https://localhost/push",
    "https://[::1]/push",
    "https://[::ffff:169.254.169.254]/push",
    "https://169.254.169.254/latest/meta-data",
    "https://10.0.0.1/push",
    "https://2130706433/push",
    "https://0x7f.1/push",
    "https://8.8.8.8:22/push",
    "https://8.8.8.8:0/push",
    "https://user@8.8.8.8/push",
    "https://8.8.8.8\\@127.0.0.1/push",
    "https://8.8.8.8/push\r\nX: y",
    "https://8.8.8.8/push#part",
    "https:///push",
    "file:///etc/passwd",
    "https://8.8.8.8/" + "a" * 1000,
)


class Now(SystemClock):
    at = NOW

    def now(self) -> datetime:
        return self.at


def test_the_example_of_the_rfc_is_encrypted_byte_for_byte() -> None:
    own_key = ec.derive_private_key(
        int.from_bytes(decode_base64url(PRIVATE, "key")), ec.SECP256R1()
    )
    body = encrypt_message(
        b"When I grow up, I want to be a watermelon",
        SubscriptionSecrets.parse(P256DH, AUTH),
        salt=decode_base64url(SALT, "salt"),
        own_key=own_key,
    )
    assert encode_base64url(body) == BODY


@pytest.mark.parametrize(
    ("p256dh", "auth"),
    [
        (P256DH, "BTBZMqHH6r4Tts7J_aSI"),
        (P256DH, "not base64!"),
        (P256DH[:-4] + "AAAA", AUTH),  # not on the curve
        ("AA", AUTH),
        (P256DH[:44], AUTH),
    ],
)
def test_unusable_keys_are_refused(p256dh: str, auth: str) -> None:
    with pytest.raises(InvalidRequest):
        SubscriptionSecrets.parse(p256dh, auth)


async def test_only_public_https_addresses_are_accepted_and_the_reason_is_not_told() -> None:
    client = PushClient(Dialer(parse_allowlist("", "CHOIR_WEB_PUSH_ALLOW")))
    reasons = set()
    for endpoint in INTERNAL:
        with pytest.raises(InvalidRequest) as refused:
            await client.check_endpoint(endpoint)
        reasons.add(refused.value.message)
    assert len(reasons) == 1
    await client.check_endpoint("https://8.8.8.8/push?token=1")


def test_a_page_counts_as_seen_until_it_is_hidden_or_silent() -> None:
    clock = Now()
    presence = PresenceTracker(clock)
    session = WebSession("web_1", "ann", "a browser", NOW, NOW, NOW)

    def is_here(name: str | None) -> bool:
        return presence.is_somebody_here(lambda person: person == name)

    presence.report(session, "a", visible=True)
    presence.report(session, "b", visible=True)
    presence.report(session, "a", visible=False)
    assert is_here("ann") and not is_here("bob") and not is_here(None)
    presence.report(session, "b", visible=False)
    assert not is_here("ann")
    presence.report(session, "b", visible=True)
    clock.at += LASTS + timedelta(seconds=1)
    assert not is_here("ann")
