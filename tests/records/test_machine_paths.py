"""Records that go elsewhere name no folder of the machine that made them."""

import pytest

from hf_albert_plus.records.machine_paths import without_machine_paths


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/me/trained/teacher", "teacher"),
        ("/home/me/my data", "my data"),
        ("~/models/student", "student"),
        ("file:///home/me/rows.csv", "rows.csv"),
        (r"C:\Users\me\rows.csv", "rows.csv"),
        ("/home/me/glue sst2", "glue sst2"),
        ("the weights of /home/me/general", "the weights of general"),
        ("texts (/srv/x/a.txt, /srv/x/b.txt)", "texts (a.txt, b.txt)"),
        ("trained/teacher", "trained/teacher"),
        ("nyu-mll/glue sst2", "nyu-mll/glue sst2"),
        ("https://huggingface.co/user/model", "https://huggingface.co/user/model"),
        ("half a text and/or more, 1/2 of it", "half a text and/or more, 1/2 of it"),
        ("0.7·soft_targets + 0.3·labels", "0.7·soft_targets + 0.3·labels"),
    ],
)
def test_of_an_absolute_path_the_name_stays(text, expected):
    assert without_machine_paths({"a": [text]}) == {"a": [expected]}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("albert-plus distill --teacher /home/me/t --data '/srv/my data/rows.csv' --out=/tmp/x/out", "albert-plus distill --teacher t --data rows.csv --out=out"),
        ("albert-plus eval base=/home/me/m:onnx-int8 --data nyu-mll/glue", "albert-plus eval base=m:onnx-int8 --data nyu-mll/glue"),
        ("albert-plus finetune --model an-encoder --set layer_map=1,2", "albert-plus finetune --model an-encoder --set layer_map=1,2"),
        ("an 'open quote of /home/me/x", "an 'open quote of x"),
    ],
)  # fmt: skip
def test_of_a_command_every_word_is_looked_at(command, expected):
    assert (
        without_machine_paths({"result": {"trained": {"command": command}}})["result"]["trained"]["command"] == expected
    )


def test_numbers_and_keys_stay():
    content = {"files": {"onnx/model.onnx": {"bytes": 3}}, "seconds": 1.5, "nothing": None, "yes": True}
    assert without_machine_paths(content) == content
