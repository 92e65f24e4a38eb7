"""Keys, signatures and anchors: each is bound to what it signs, and old keys still check."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from choir_common.errors import StartupError
from choir_common.eventlog.key_file import add_key, load_keys, mark_published, restore_keys
from choir_common.eventlog.signature import (
    NO_SIGNATURE,
    AuditKey,
    AuditKeyring,
    SignatureState,
)
from choir_control.log.audit.anchor import (
    FIRST_ROOT,
    Anchor,
    AnchoredHead,
    check_anchors,
    compute_root,
)
from choir_control.log.audit.key_file import AuditKeyFile

OLD, NEW = AuditKey(b"o" * 32), AuditKey(b"n" * 32)
AT = datetime(2026, 11, 23, tzinfo=UTC)


def test_a_signature_is_that_of_one_event_only() -> None:
    keyring = AuditKeyring([OLD])
    signature = keyring.sign_event("s1", 2, "ab")
    assert keyring.check_event(signature, "s1", 2, "ab") is SignatureState.VALID
    for other in (("s2", 2, "ab"), ("s1", 3, "ab"), ("s1", 2, "ac")):
        assert keyring.check_event(signature, *other) is SignatureState.WRONG
    assert keyring.check(signature, "anchor", "s1", "2", "ab") is SignatureState.WRONG


def test_every_flipped_bit_of_a_signature_is_found() -> None:
    keyring = AuditKeyring([OLD])
    signature = keyring.sign_event("s1", 2, "ab")
    for bit in range(len(signature) * 8):
        flipped = bytearray(signature)
        flipped[bit // 8] ^= 1 << bit % 8
        state = keyring.check_event(bytes(flipped), "s1", 2, "ab")
        assert state is (SignatureState.UNKNOWN_KEY if bit < 32 else SignatureState.WRONG)


def test_after_a_rotation_the_new_key_signs_and_the_old_one_still_checks() -> None:
    keyring = AuditKeyring([OLD])
    old = keyring.sign_event("s1", 1, "ab")
    keyring.replace([OLD, NEW])
    new = keyring.sign_event("s1", 1, "ab")
    assert old != new and keyring.key_ids == (OLD.key_id.hex(), NEW.key_id.hex())
    assert {keyring.check_event(each, "s1", 1, "ab") for each in (old, new)} == {
        SignatureState.VALID
    }
    keyring.replace([NEW])
    assert keyring.check_event(old, "s1", 1, "ab") is SignatureState.UNKNOWN_KEY


def test_a_missing_signature_is_no_signature_and_without_keys_nothing_is_signed() -> None:
    keyring = AuditKeyring([OLD])
    for signature in (None, NO_SIGNATURE):
        assert keyring.check_event(signature, "s1", 1, "ab") is SignatureState.MISSING
    with pytest.raises(LookupError):
        AuditKeyring().sign_event("s1", 1, "ab")


def make_anchors(keyring: AuditKeyring, count: int) -> list[Anchor]:
    anchors, root = [], FIRST_ROOT
    for number in range(1, count + 1):
        heads = (AnchoredHead("s1", number, f"{number:064}"), AnchoredHead("s0", 1, "a" * 64))
        at = AT + timedelta(days=number)
        root = compute_root(root, number, at, heads)
        anchors.append(Anchor(number, at, root, keyring.sign("anchor", root), heads))
    return anchors


def test_a_changed_a_missing_and_a_forged_anchor_are_found() -> None:
    keyring = AuditKeyring([OLD])
    anchors = make_anchors(keyring, 4)
    assert not any(checked.fault for checked in check_anchors(anchors, keyring).values())
    changed = Anchor(2, AT, anchors[1].root, anchors[1].signature, anchors[1].heads)
    assert check_anchors([anchors[0], changed], keyring)[2].fault
    assert "anchor 2 is missing" in check_anchors([anchors[0], *anchors[2:]], keyring)[3].fault
    forged = make_anchors(AuditKeyring([NEW]), 4)
    assert not any(checked.is_signed for checked in check_anchors(forged, keyring).values())
    stolen = Anchor(1, AT, forged[0].root, anchors[0].signature, forged[0].heads)
    assert check_anchors([stolen], keyring)[1].fault


def test_the_first_key_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "audit-keys.json"
    first = load_keys(file)
    assert first.is_unpublished and file.stat().st_mode & 0o777 == 0o600
    mark_published(file)
    again = load_keys(file)
    assert again.keys == first.keys and not again.is_unpublished
    assert add_key(file).keys[0] == first.keys[0] and len(load_keys(file).keys) == 2


def test_a_restored_backup_brings_its_keys_or_has_all_logs_anchored_again(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old_keys, new_keys = load_keys(old).keys, load_keys(new).keys
    mark_published(new)
    restore_keys(new, old)
    merged = load_keys(new)
    assert merged.keys == (*old_keys, *new_keys) and not merged.is_unpublished
    restore_keys(new, tmp_path / "none.json")
    assert load_keys(new).keys == merged.keys and load_keys(new).is_unpublished


@pytest.mark.parametrize("content", ['{"key-0001": "00"}', "{}", '{"key-1": "no"}', "nonsense"])
async def test_a_damaged_key_file_stops_the_start(tmp_path: Path, content: str) -> None:
    file = tmp_path / "audit-keys.json"
    file.write_text(content)
    file.chmod(0o600)
    with pytest.raises(StartupError, match="no valid audit keys"):
        await AuditKeyFile(file, AuditKeyring()).load()
