"""Draws bad values for every option and bad content for every file that a verb reads, and runs the command line on them.

    python -m tests.fuzz --cases 1000 --seed 0 [--verb eval] [--case N] [--report FILE.md]

`verbs` has a command line of every verb that works, on the tiny `inputs`. `cases` spoils it in one place: an option (`values`), a file
(`contents`) or what an earlier run left (`states`). `worker` runs a case in a fork of a warm process, `judgement` says whether it ended as a
command may end, and `report` counts.
"""
