"""Count the tokens of texts with an offline tokenizer: the program that `tokenizer` runs as a child.

Imported by nobody: the tables it loads take 70 MB, which the agent itself is not to carry. Reads lines, each
a JSON string, and writes one count for each.
"""

import json
import sys

import bpe_openai  # type: ignore[import-untyped]  # it ships no types

ENCODING = "o200k_base"


def main() -> None:
    """Answer every line with its number of tokens."""
    encoding = bpe_openai.get_encoding(ENCODING)
    for line in sys.stdin:
        count = len(encoding.encode_ordinary(json.loads(line)))
        sys.stdout.write(f"{count}\n")


if __name__ == "__main__":
    main()
