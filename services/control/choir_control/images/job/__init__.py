"""Builds of agents' images by Jobs of a Kubernetes cluster, which push them to a registry.

`steps` runs in the Job's pod, from the image choir-builder; everything else runs in control.
"""
