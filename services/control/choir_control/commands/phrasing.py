"""Rewrite choirctl commands in a message as the commands that can be typed in a conversation. Pure.

Called by `obey` for conversations on channels other than the console.
"""

import re
from collections.abc import Sequence

from choir_control.commands.row import Row


def as_typed(text: str, rows: Sequence[Row]) -> str:
    """Return a message with each choirctl command replaced by its typed form."""
    # `... set` takes its arguments in another order there
    known = {
        row.choirctl: row.typed
        for row in rows
        if row.typed and row.choirctl and not row.choirctl.endswith(" set")
    }
    for words in sorted(known, key=len, reverse=True):
        text = re.sub(rf"choirctl {re.escape(words)}(?![\w-])", known[words] or "", text)
    return text
