"""Agent runtime that runs agents as hardened pods of a Kubernetes cluster.

Owns the pods' manifest and lifecycle. Imported only when the settings select it, because the client
library takes 65 MB; it is the extra `kubernetes` of choir-control.
"""
