"""Giving up root's rights: a command that is given bad paths must not be able to write where they lead."""

import ctypes
import os
import sys
from pathlib import Path

_NOBODY = 65534
_KEEP_CAPABILITIES = 8  # PR_SET_KEEPCAPS
_VERSION_3 = 0x20080522
_READ_SEARCH = 1 << 2  # CAP_DAC_READ_SEARCH: an interpreter in root's home can still import


def own(folder: Path) -> None:
    """Hands a folder to whom `give_up_root` becomes."""
    if os.geteuid() == 0:
        os.chown(folder, _NOBODY, _NOBODY)


def give_up_root() -> None:
    """Becomes nobody, who may read everything and write only what is nobody's. Does nothing where the process is no root's."""
    if os.geteuid() != 0:
        return
    if sys.platform != "linux":
        raise SystemExit("the fuzzer runs as root on Linux alone: run it as another user")
    libc = ctypes.CDLL(None, use_errno=True)
    _done(libc.prctl(_KEEP_CAPABILITIES, 1, 0, 0, 0))
    os.setgroups([])
    os.setgid(_NOBODY)
    os.setuid(_NOBODY)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    effective_permitted_inheritable = (ctypes.c_uint32 * 6)(_READ_SEARCH, _READ_SEARCH, 0, 0, 0, 0)
    _done(libc.capset(header, effective_permitted_inheritable))


def _done(answer: int) -> None:
    if answer:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


__all__ = ["give_up_root", "own"]
