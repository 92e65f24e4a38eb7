#!/bin/sh
# choirctl in control's container: `docker compose exec control choirctl …`, as the owner of CHOIR_HOME.
exec /opt/control/bin/python -I -S /opt/enter.py /opt/tools/bin/choirctl "$@"
