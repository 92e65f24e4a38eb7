"""Sums of a call's connections, which the agent takes for the event of the result."""

from choir_common.egress.credentials import ProxyIdentity
from choir_egress.call_accounts import CallAccounts
from choir_egress.traffic import ProxyConnection

USER = ProxyIdentity("choir.exec", "call_1")


def connection() -> ProxyConnection:
    return ProxyConnection("main", USER, "a.example", 443)


def test_a_connection_that_is_counted_again_moves_with_its_bytes() -> None:
    accounts = CallAccounts()
    complete, broken = connection(), connection()
    for account in (complete, broken):
        accounts.count(account, "allowed")
        account.up.consume(100)
    broken.down.consume(7)
    accounts.count(broken, "failed")
    broken.up.consume(1)
    complete.up.consume(10)
    sums = [
        (host.decision, host.connections, host.bytes_up, host.bytes_down)
        for host in accounts.take("call_1").hosts
    ]
    assert sums == [("allowed", 1, 110, 0), ("failed", 1, 101, 7)]


def test_the_only_connection_to_a_host_leaves_no_entry_where_it_was_counted_before() -> None:
    accounts = CallAccounts()
    account = connection()
    accounts.count(account, "allowed")
    accounts.count(account, "refused")
    assert [host.decision for host in accounts.take("call_1").hosts] == ["refused"]
