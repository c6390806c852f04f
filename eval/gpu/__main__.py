"""`python -m hf_albert_plus.eval.gpu` is `albert-plus bench gpu` for machines that lack the libraries of a command line."""

import argparse
import sys
from pathlib import Path

from transformers.utils import logging

from hf_albert_plus.errors import AlbertPlusError
from hf_albert_plus.eval.gpu.chain import MINUTES, open_chain, run_chain
from hf_albert_plus.eval.gpu.gpu_documents import table_of, table_text


def main(words: list[str] | None = None) -> None:
    """Says what is done, does it, and prints the table; an error ends it with a line and 1."""
    parser = argparse.ArgumentParser(prog="python -m hf_albert_plus.eval.gpu", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="directory of the documents; the same one goes on")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="what computes")
    parser.add_argument("--small", action="store_true", help="tiny shapes, to see that the chain works")
    parser.add_argument("--model", help="model directory or variant that answers")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="no part begins that would probably end later")
    parser.add_argument("--plan", action="store_true", help="say what is done and what it needs, and stop")
    given = parser.parse_args(words)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        chain = open_chain(given.device, small=given.small, model=given.model, minutes=given.minutes)
        print(*chain.described(given.out), sep="\n", file=sys.stderr)
        if not given.plan:
            print(table_text(*table_of(run_chain(chain, given.out)["rows"])), end="")
    except AlbertPlusError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
