#!/usr/bin/env python3
"""Roll dice: reads {"input": {"dice": 2}} on standard input, prints the result as JSON."""

import json
import random
import sys


def main():
    try:
        count = json.load(sys.stdin)["input"]["dice"]
        rolled = [random.SystemRandom().randint(1, 6) for _ in range(count)]
        result = {"summary": f"{sum(rolled)} in all", "rolled": rolled, "count": len(rolled)}
    except (KeyError, TypeError, ValueError) as error:
        result = {"status": "error", "code": "bad_input", "message": str(error)}
    print(json.dumps(result))


main()
