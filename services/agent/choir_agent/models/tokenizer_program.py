"""Program that counts tokens with an offline tokenizer; `tokenizer` runs it as a child process.

Never imported: its tables take 70 MB, which the agent itself should not use. Reads lines, each a JSON
string, and writes one count per line.
"""

import json
import sys

import bpe_openai  # type: ignore[import-untyped]  # it ships no types

ENCODING = "o200k_base"


def main() -> None:
    """Write the number of tokens of each input line."""
    encoding = bpe_openai.get_encoding(ENCODING)
    for line in sys.stdin:
        count = len(encoding.encode_ordinary(json.loads(line)))
        sys.stdout.write(f"{count}\n")


if __name__ == "__main__":
    main()
