"""Hosts that programs of tool calls reach without the egress proxy."""

from choir_agent.egress.route import EgressAddress, unproxied_hosts


def test_programs_reach_their_own_servers_without_the_proxy() -> None:
    variables = EgressAddress("/proxy.sock", "ab" * 32, 3128).environment("choir.exec", "call_1")
    assert variables["NO_PROXY"] == variables["no_proxy"] == "localhost,127.0.0.1,::1"


def test_a_git_server_of_this_machine_is_reached_through_the_proxy() -> None:
    variables = unproxied_hosts(except_for=("github.com", "LOCALHOST:3000"))
    assert variables == {"NO_PROXY": "127.0.0.1,::1", "no_proxy": "127.0.0.1,::1"}
