"""The rules of SQuAD 2.0's official evaluation script (evaluate-v2.0.py, Rajpurkar et al. 2018), a function for each of its own by the same
name, written out step by step as it takes them. Nothing here is shared with the package, whose scores are compared with these."""

import collections
import re
import string


def normalize_answer(text):
    """Lower case; then no punctuation, character by character; then a blank for each article; then single blanks."""
    text = text.lower()
    marks = set(string.punctuation)
    text = "".join(character for character in text if character not in marks)
    text = re.sub(re.compile(r"\b(a|an|the)\b", re.UNICODE), " ", text)
    return " ".join(text.split())


def get_tokens(text):
    """The words of a normalised text; none of an empty one."""
    return normalize_answer(text).split() if text else []


def compute_exact(gold, said):
    return int(normalize_answer(gold) == normalize_answer(said))


def compute_f1(gold, said):
    """By precision and recall; where either has no words, whether neither has."""
    gold_words, said_words = get_tokens(gold), get_tokens(said)
    same = sum((collections.Counter(gold_words) & collections.Counter(said_words)).values())
    if not gold_words or not said_words:
        return int(gold_words == said_words)
    if same == 0:
        return 0
    precision, recall = 1.0 * same / len(said_words), 1.0 * same / len(gold_words)
    return (2 * precision * recall) / (precision + recall)


def get_raw_scores(golds, said):
    """The best exact match and the best F1 over the right answers that are not empty when normalised; over none, the empty answer."""
    golds = [gold for gold in golds if normalize_answer(gold)]
    if not golds:
        golds = [""]
    return max(compute_exact(gold, said) for gold in golds), max(compute_f1(gold, said) for gold in golds)


def find_best_thresh(said, scores, na_probs, has_answer):
    """Points of the best threshold and the threshold, by adding one question after the other in the order of its `na_probs`, from none
    answered on. A question whose right answer is none costs one as soon as it is answered.

    Args:
        said, scores, na_probs, has_answer: of each question, by its id.
    """
    current = best = sum(1 for each in has_answer if not has_answer[each])
    threshold = 0.0
    for question in sorted(na_probs, key=lambda each: na_probs[each]):
        if has_answer[question]:
            current += scores[question]
        elif said[question]:
            current += -1
        if current > best:
            best, threshold = current, na_probs[question]
    return 100.0 * best / len(scores), threshold


def apply_no_ans_threshold(scores, na_probs, has_answer, threshold):
    """The scores where a question is not answered whose `na_probs` lies above the threshold."""
    return {
        question: float(not has_answer[question]) if na_probs[question] > threshold else score
        for question, score in scores.items()
    }
