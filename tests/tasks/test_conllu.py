"""Treebanks: what stands in the columns of CoNLL-U, counted by hand."""

import pytest

from hf_albert_plus.errors import InvalidInput
from hf_albert_plus.tasks.data_settings import DataSettings
from hf_albert_plus.tasks.own_data import find_task
from hf_albert_plus.tasks.splits import load_split

SENTENCE = """# sent_id = {number}
# text = Wir gingen zum Haus.
1	Wir	wir	PRON	PPER	Case=Nom	2	nsubj	_	_
2	gingen	gehen	VERB	VVFIN	_	0	root	_	_
3-4	zum	_	_	_	_	_	_	_	_
3	zu	zu	ADP	APPR	_	5	case	_	_
4	dem	der	DET	ART	_	5	det	_	_
4.1	ging	gehen	VERB	_	_	_	_	2:conj	_
5	Haus	Haus	NOUN	NN	_	2	obl	_	SpaceAfter=No
6	.	.	PUNCT	$.	_	2	punct	_	_

"""
WORDS = ["Wir", "gingen", "zu", "dem", "Haus", "."]
UPOS = ["PRON", "VERB", "ADP", "DET", "NOUN", "PUNCT"]
XPOS = ["PPER", "VVFIN", "APPR", "ART", "NN", "$."]


def treebank(folder, content=SENTENCE):
    """Splits under the names that treebanks have."""
    for split, count in (("train", 4), ("dev", 2), ("test", 3)):
        text = "".join(content.replace("{number}", str(number)) for number in range(count))
        (folder / f"de_gsd-ud-{split}.conllu").write_text(text, "utf-8")
    return str(folder)


@pytest.mark.parametrize(("column", "expected"), [("upos", UPOS), ("xpos", XPOS)])
def test_a_treebanks_words_have_the_tags_of_the_column_that_is_asked_for(tmp_path, column, expected):
    data = treebank(tmp_path)
    task = find_task(data, DataSettings(label_column=(column,)))
    assert (task.kind, task.columns, task.label_columns) == ("tags", ("words",), (column,))
    for split, count in (("train", 4), ("validation", 2), ("test", 3)):
        rows = load_split(data, task, split)
        assert [row["words"] for row in rows] == [WORDS] * count
        assert [[task.labels[tag] for tag in row["label"]] for row in rows] == [expected] * count


def test_with_two_kinds_of_tags_one_is_asked_for(tmp_path):
    with pytest.raises(InvalidInput, match="got upos, xpos .* add --label-column NAME"):
        find_task(treebank(tmp_path))


def test_a_kind_that_no_word_has_is_left_out(tmp_path):
    content = SENTENCE
    for tag in XPOS:
        content = content.replace(f"\t{tag}\t", "\t_\t")
    task = find_task(treebank(tmp_path, content))
    assert task.label_columns == ("upos",)


@pytest.mark.parametrize("line", ["1\tWir\tPRON", "Wir wir PRON PPER _ 2 nsubj _ _ _", "Wir" + "\t_" * 9])
def test_what_is_no_line_of_the_format_is_named(tmp_path, line):
    (tmp_path / "my.conllu").write_text(SENTENCE + line + "\n")
    with pytest.raises(
        InvalidInput, match=r"the 10 columns of CoNLL-U.*in line 12: .*Wir.*name a file of other columns \.conll"
    ):
        find_task(str(tmp_path / "my.conllu"))
