"""Lines of a range of bytes, each read in bounded memory however long it is."""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ..errors import InvalidInput
from .plan import Part

# Characters of a line that is needed whole.
_LONGEST = 64 << 20
_PIECE = 1 << 20


@dataclass(frozen=True)
class Lines:
    """The lines of a part with their numbers in the file, from 0, without what ends them.

    Attributes:
        most: characters of a line that are needed, about; None for all of them.
    """

    part: Part
    most: int | None

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """
        Raises:
            InvalidInput: bytes that are not UTF-8, or a line that is needed whole and too long for that.
        """
        source, place = self.part.source, self.part.range
        with open(source.file, "rb") as stream:
            stream.seek(place.start)
            for number in range(place.first, place.first + place.rows):
                try:
                    line = self._line(stream)
                except UnicodeDecodeError as error:
                    raise InvalidInput(
                        f"line {number + 1} of {source.path} must be UTF-8",
                        got=f"the byte {error.object[error.start]:#04x}",
                        repair=f"convert it: iconv -f LATIN1 -t UTF-8 {source.path}",
                    ) from None
                if self.most is None and len(line) > _LONGEST:
                    raise InvalidInput(
                        f"line {number + 1} of {source.path} must have at most {_LONGEST} characters",
                        got="more",
                        repair="cut or remove that line",
                    )
                # A file may begin with a mark of its byte order.
                yield number, line if number else line.removeprefix("\ufeff")

    def _line(self, stream: BinaryIO) -> str:
        decoder = codecs.getincrementaldecoder("utf-8")()
        most = _LONGEST if self.most is None else self.most
        line = ""
        while True:
            raw = stream.readline(_PIECE)
            is_last = len(raw) < _PIECE or raw.endswith(b"\n")
            # All of it is decoded, so that what is not UTF-8 is found, and not all is kept.
            piece = decoder.decode(raw, final=is_last)
            line = line + piece if len(line) <= most else line
            if is_last:
                return line.removesuffix("\n").removesuffix("\r")


__all__ = ["Lines"]
