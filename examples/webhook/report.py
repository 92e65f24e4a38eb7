"""Report a deploy to Choir by a signed request: `report.py URL APP STATUS`, with the key in DEPLOY_KEY."""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
import urllib.request
import uuid


def main() -> None:
    url, app, status = sys.argv[1:]
    body = json.dumps({"app": app, "status": status}).encode()
    message_id, now = f"msg_{uuid.uuid4()}", str(int(time.time()))
    signed = f"{message_id}.{now}.".encode() + body
    key = os.environ["DEPLOY_KEY"].encode()
    signature = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    headers = {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": now,
        "webhook-signature": f"v1,{signature}",
    }
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        print(answer.status, answer.read().decode())


main()
