"""Runs the agents: sessions, the processes they run in, updates, and tools that work on the host.

`sessions` starts, stops and recovers sessions; `runtimes` runs an agent as a process or a container;
`rollout` updates agents to a new image or configuration; `operations` are long tasks with progress;
`host_tools` executes the tools that run in control instead of the agent.
"""
