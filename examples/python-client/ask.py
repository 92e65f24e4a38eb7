"""Ask an agent, print its answer while it is written, then give it a job: `ask.py AGENT QUESTION`."""

import sys

from choir_client import ChoirClient, ChoirError


def main() -> int:
    agent, question = sys.argv[1:]
    try:
        with ChoirClient() as choir:
            for piece in choir.stream(agent, question):
                print(piece, end="", flush=True)
            print()
            job = choir.jobs.start(agent, f"Write down what I asked: {question}")
            end = choir.jobs.wait(job, timeout_s=600)
            print(f"The job is {end.outcome}.")
    except ChoirError as error:
        print(error.message, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
