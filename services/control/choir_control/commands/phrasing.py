"""Say to people on a phone what to type there, where a message names a command of choirctl. Pure.

Called by `obey` for conversations that are not the console.
"""

import re
from collections.abc import Sequence

from choir_control.commands.row import Row


def as_typed(text: str, rows: Sequence[Row]) -> str:
    """Return a message with the commands of choirctl written as they are typed in a conversation."""
    # `... set` takes its arguments in another order there
    known = {
        row.choirctl: row.typed
        for row in rows
        if row.typed and row.choirctl and not row.choirctl.endswith(" set")
    }
    for words in sorted(known, key=len, reverse=True):
        text = re.sub(rf"choirctl {re.escape(words)}(?![\w-])", known[words] or "", text)
    return text
