"""Program that counts tokens with an offline tokenizer; `tokenizer` runs it as a child process.

Never imported by the agent: its tables take 60 MB, which the agent itself should not use. Reads lines, each
a JSON string, and writes one count per line.
"""

import base64
import gzip
import json
import sys
from pathlib import Path

from tiktoken import Encoding

ENCODING = "o200k_base"
RANKS = Path(__file__).with_name(f"{ENCODING}.tiktoken.gz")
"""OpenAI's published table (MIT). tiktoken would download it, and agents have no network."""
PATTERN = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
"""How the encoding splits a text into words, as in `tiktoken_ext.openai_public`."""


def load_encoding() -> Encoding:
    """Return the tokenizer for o200k_base, from the table beside this file."""
    rows = (line.split() for line in gzip.decompress(RANKS.read_bytes()).splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in rows}
    return Encoding(ENCODING, pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})


def main() -> None:
    """Write the number of tokens of each input line."""
    encoding = load_encoding()
    for line in sys.stdin:
        count = len(encoding.encode_ordinary(json.loads(line)))
        sys.stdout.write(f"{count}\n")


if __name__ == "__main__":
    main()
