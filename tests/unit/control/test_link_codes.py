"""Codes that link identities, as an attacker tries them."""

from dataclasses import dataclass

from choir_control.conversations.people.link_codes import (
    LIFETIME_S,
    MAX_OPEN,
    MAX_TRIES,
    MAX_WRONG,
    LinkCodes,
)

USER, ATTACKER = ("g", "1"), ("g", "666")


@dataclass
class HandClock:
    now_s: float = 0.0

    def monotonic(self) -> float:
        return self.now_s


def make_codes() -> tuple[LinkCodes, HandClock]:
    clock = HandClock()
    return LinkCodes(clock), clock  # type: ignore[arg-type]


def test_a_code_works_once_in_any_spelling() -> None:
    codes, _ = make_codes()
    code = codes.create("ada")
    assert len(code) == 8 and code not in repr(vars(codes))
    typed = f"{code[:4]}-{code[4:]}".lower()
    assert codes.redeem(USER, typed) == "ada"
    assert codes.redeem(USER, code) is None
    assert codes.redeem(ATTACKER, code) is None


def test_a_code_expires_and_a_new_one_replaces_it() -> None:
    codes, clock = make_codes()
    first = codes.create("ada")
    second = codes.create("ada")
    assert codes.redeem(USER, first) is None
    clock.now_s = LIFETIME_S
    assert codes.redeem(USER, second) is None


def test_an_identity_that_guessed_too_often_is_refused_also_with_the_right_code() -> None:
    codes, clock = make_codes()
    code = codes.create("ada")
    for _ in range(MAX_TRIES):
        assert codes.redeem(ATTACKER, "AAAAAAAA") is None
    assert codes.redeem(ATTACKER, code) is None
    assert codes.redeem(USER, code) == "ada", "others are not locked out"
    clock.now_s = LIFETIME_S + 1
    assert codes.redeem(ATTACKER, codes.create("ada")) == "ada"


def test_guesses_of_many_identities_end_all_codes() -> None:
    codes, _ = make_codes()
    code = codes.create("ada")
    for number in range(MAX_WRONG):
        assert codes.redeem(("g", f"{number}"), "") is None
    assert codes.redeem(USER, code) is None


def test_the_number_of_open_codes_is_limited() -> None:
    codes, _ = make_codes()
    first = codes.create("0")
    for number in range(1, MAX_OPEN + 1):
        codes.create(f"{number}")
    assert codes.redeem(USER, first) is None
