"""The agent's way to the network: the egress proxy on a Unix socket, to which `link` leads in a pod.

`event_loop` is for the agent's own connections, `relay` and `route` for the programs that its tools run.
"""
