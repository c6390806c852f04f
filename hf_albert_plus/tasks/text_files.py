"""Files of text as people have them: compressed or not, in UTF-8, or in another encoding that is refused with its conversion."""

import gzip
import shlex
import zlib
from pathlib import Path

from ..errors import InvalidInput, first_line

# Behind another suffix: the file is compressed by gzip.
_COMPRESSED = ".gz"


def bare(path: Path) -> Path:
    """A path as it is called when the file is not compressed: `my.csv` of `my.csv.gz`."""
    return path.with_suffix("") if path.suffix.lower() == _COMPRESSED else path


def form_of(path: Path) -> str:
    """What a file is, by its suffix."""
    return bare(path).suffix.lower()


def text_of(path: Path) -> str:
    """The characters of a file in UTF-8, or in UTF-16 or UTF-32 where its first bytes say so.

    Raises:
        InvalidInput: bytes that are none, or what is not compressed as its name says.
    """
    raw = _bytes(path)
    if raw.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
        encoding = "utf-32"
    elif raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    else:
        encoding = "utf-8-sig"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InvalidInput(
            "a file of text must be in UTF-8",
            got=f"the byte 0x{raw[error.start]:02x} in line {line} of {path}",
            repair=f"save it as CSV UTF-8, or convert it, say from Windows' encoding: {_conversion(path)}",
        ) from None
    if "\x00" in text:
        raise InvalidInput(
            "a file of text must have no zero bytes",
            got=f"one in line {text.count(chr(10), 0, text.index(chr(0))) + 1} of {path}",
            repair="convert it to UTF-8, or remove them",
        )
    return text


def _bytes(path: Path) -> bytes:
    """What is in a file, compressed or not."""
    if path.suffix.lower() != _COMPRESSED:
        return path.read_bytes()
    try:
        return gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInput(
            "a file .gz must be compressed by gzip", got=f"{path} ({first_line(error)})", repair="write it again, or gunzip it"
        ) from None  # fmt: skip


def _conversion(path: Path) -> str:
    """The command that writes a file of Windows' encoding in UTF-8, beside it."""
    raw, target = shlex.quote(str(path)), shlex.quote(str(path.with_name(f"utf8-{bare(path).name}")))
    if path.suffix.lower() == _COMPRESSED:
        return f"gunzip -c {raw} | iconv -f WINDOWS-1252 -t UTF-8 > {target}"
    return f"iconv -f WINDOWS-1252 -t UTF-8 {raw} > {target}"
