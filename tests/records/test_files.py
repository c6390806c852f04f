"""Documents are read by their shape, and each that is none is refused with its place."""

from dataclasses import dataclass

import pytest
from pydantic import ConfigDict
from typing_extensions import TypedDict

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.records.files import parse_json, read_json


@dataclass(frozen=True)
class Point:
    name: str
    seconds: float
    tags: list[str]


class Open(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow")
    rows: list[int]


def written(tmp_path, text):
    path = tmp_path / "document.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_document_becomes_its_shape(tmp_path):
    path = written(tmp_path, '{"name": "a", "seconds": 2, "tags": ["x"], "other": 1}')
    assert read_json(path, what="a point", shape=Point) == Point("a", 2.0, ["x"])
    path = written(tmp_path, '{"rows": [1], "kept": {"as": "it is"}}')
    assert read_json(path, what="rows", shape=Open) == {"rows": [1], "kept": {"as": "it is"}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "object"),
        ("5", "object"),
        ('{"name": "a", "tags": []}', "seconds: Field required"),
        ('{"name": 5, "seconds": 1, "tags": []}', "name: Input should be a valid string"),
        ('{"name": "a", "seconds": "1", "tags": []}', "seconds: Input should be a valid number"),
        ('{"name": "a", "seconds": 1, "tags": ["x", null]}', r"tags\.1: Input should be a valid string"),
    ],
)
def test_another_shape_is_refused_with_its_place(tmp_path, text, said):
    path = written(tmp_path, text)
    with pytest.raises(
        InvalidInput, match=f"a point must have the shape of one, got .*document.json .*{said}.*; make one"
    ):
        read_json(path, what="a point", shape=Point, repair="make one")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Expecting value"),
        ('{"a": ', "Expecting value"),
        ("[" * 100_000 + "]" * 100_000, "nests too deeply"),
        ('{"a": NaN}', "NaN is no number of JSON"),
        ('{"a": -Infinity}', "-Infinity is no number"),
        ('{"a": 1e999}', "1e999 is beyond the range"),
        ("1" * 5000, "4300 digits"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        (b"\xff\xfe{}", "codec can't decode"),
    ],
)
def test_what_is_no_json_is_refused(tmp_path, text, said):
    with pytest.raises(InvalidInput, match=f"a point must be a JSON file, got .*{said}"):
        read_json(written(tmp_path, text), what="a point")


def test_whole_surrogate_pairs_are_characters():
    assert parse_json('"\\ud83d\\ude00"') == "\N{GRINNING FACE}"


def test_a_path_through_a_file_is_missing(tmp_path):
    with pytest.raises(InvalidInput, match="a point must be an existing JSON file"):
        read_json(written(tmp_path, "{}") / "below.json", what="a point")
