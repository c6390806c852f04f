"""What the scripts of studies ask of albert-plus, without anything being run."""

import os
import subprocess
from pathlib import Path

from tests.support.command_line import parsed

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

_NOTES_ITS_WORDS = """#!/bin/bash
words=$(printf '%s\\t' "$@")
echo "$words" >> "$NOTES"
while [ $# -gt 1 ]; do
    if [ "$1" = --out ]; then
        mkdir -p "$2"
        if [ -n "${RECORD-}" ]; then echo "$RECORD" > "$2/record.json"; fi
    fi
    shift
done
"""


def calls_of(script, *arguments, folder):
    """What a script asks of albert-plus, in its order: the verb and its options. Nothing runs but directories being made."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "notes").unlink(missing_ok=True)
    stand_in = folder / "bin" / "albert-plus"
    stand_in.write_text(_NOTES_ITS_WORDS)
    stand_in.chmod(0o755)
    path = f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "NOTES": str(folder / "notes")}
    subprocess.run([EXAMPLES / script, *arguments], cwd=folder, env=environment, check=True)
    noted = (folder / "notes").read_text() if (folder / "notes").exists() else ""
    commands = [line.rstrip("\t").split("\t") for line in noted.splitlines()]
    return [(verb, parsed(verb, words)) for verb, *words in commands]
