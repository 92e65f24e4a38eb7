"""Exclusive lock of an open file, with a deadline. Blocking: call it before the loop runs, or in a thread."""

import fcntl
import time

LOCK_TIMEOUT_S = 5.0
LOCK_POLL_S = 0.05


def lock_file(descriptor: int, timeout_s: float = LOCK_TIMEOUT_S) -> None:
    """Lock an open file until it is closed; raises TimeoutError if another process keeps it locked."""
    give_up = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise TimeoutError from None
            time.sleep(LOCK_POLL_S)
