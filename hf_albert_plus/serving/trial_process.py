"""The process of a trial: it opens a model as a server does, and holds its logits or vectors against what they must be.

Where the record of an export vouches for the weights and the engine's file, that was done when it was made, and is not done again: a
comparison takes torch, which a machine that serves need not have, and seconds.

python -m hf_albert_plus.serving.trial_process DIR RUNTIME CONTENT [MAX_LENGTH] says on stdout, as JSON, what is wrong with the model,
null for nothing. Its files are not compared with their hashes as long as they are still those of CONTENT.
"""

import sys
from pathlib import Path

from ..engines.text_model_kinds import open_text_model
from ..errors import InvalidInput, need
from .carried_errors import error_text
from .repository import content_of
from .vouching import was_compared


def try_model(directory: str, runtime: str, max_length: int | None, *, verify: bool = True) -> None:
    """Tries a model.

    Args:
        verify: compare its files with the hashes in its record.

    Raises:
        InvalidInput: it does not open, does not compute, or computes something else than it must.
    """
    model = open_text_model(directory, runtime, cores=1, max_length=max_length, verify=verify)
    model.warm_up()
    if not was_compared(Path(directory), model.engine.runtime):
        need("torch", extra="cpu")
        from .weights_comparison import check_as_weights

        check_as_weights(Path(directory), model.engine.runtime)


def main(directory: str, runtime: str, content: str, max_length: str | None = None) -> None:
    """Tries a model, and says what is wrong with it."""
    verify = content_of(Path(directory), runtime) != content
    try:
        try_model(directory, runtime, None if max_length is None else int(max_length), verify=verify)
    except InvalidInput as error:
        print(error_text(error))
    else:
        print("null")


if __name__ == "__main__":
    main(*sys.argv[1:])
