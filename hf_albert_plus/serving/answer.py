"""`POST /answer`: what it takes and gives, and its route."""

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from ..engines.text_answers import AnswerSpan, TextAnswers
from .answer_kinds import rule_at, threshold_of
from .json_problems import read_body
from .plain_routes import ByItself
from .request_fields import ModelName, Version
from .service import Service, predicted

_FORMS = "an object with question and context, or a list of these"
Passage = Annotated[str, Field(min_length=1)]


class Question(BaseModel):
    """A question, and the text that has its answer. A long one is read in windows that overlap, each with the whole question."""

    model_config = ConfigDict(extra="forbid", strict=True)
    question: Passage
    context: Passage


class AnswerRequest(BaseModel):
    """A question with its context, or a list of these."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [{"inputs": {"question": "who sold the lamp?", "context": "The sailor sold the lamp at dusk."}}]
        },
    )
    inputs: Question | Annotated[list[Question], Field(min_length=1)]
    model: ModelName = None
    version: Version = None
    truncate: bool | None = Field(
        default=None,
        description="Leave the end of a context unread that has too many windows instead of refusing it. Default: the server's own.",
    )
    threshold: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="By how much the logit of no answer may exceed that of the best span, which is given up to there. Default: the model's.",
    )

    def questions(self) -> list[tuple[str, str]]:
        """The questions with their contexts."""
        given = self.inputs if isinstance(self.inputs, list) else [self.inputs]
        return [(one.question, one.context) for one in given]


class Answer(BaseModel):
    """What a model says to one question.

    `start` and `end` count characters (Unicode's code points) of the context as it came, of which `answer` is the part between them. All three
    are null where the context has no answer.

    Attributes:
        score: the probability of what is said, among all spans and, of a model that may say so, no answer.
        no_answer_score: that of no answer; 0 of a model that always gives one.
        margin: by how much the logit of no answer exceeds that of the best span; null where there is no span at all.
        tokens: of all windows.
        truncated: whether the end of the context was not read.
    """

    answer: str | None
    start: int | None
    end: int | None
    score: float
    no_answer_score: float
    margin: float | None
    tokens: int
    truncated: bool


class AnswerResponse(BaseModel):
    """The answers, in the order of the inputs."""

    model: str
    version: str
    predictions: list[Answer]


def answers_of(answers: TextAnswers, threshold: float | None) -> list[dict[str, Any]]:
    """What is said to every question, each with the fields of an `Answer`.

    Args:
        threshold: of no answer; None of a model that always gives one.
    """
    said = zip(answers.spans, answers.tokens, answers.truncated, strict=True)
    return [{**_said(span, threshold), "tokens": tokens, "truncated": truncated} for span, tokens, truncated in said]


def _said(span: AnswerSpan, threshold: float | None) -> dict[str, Any]:
    facts = {"no_answer_score": span.no_answer_score, "margin": span.margin if span.text else None}
    if span.is_given(threshold):
        return {"answer": span.text, "start": span.start, "end": span.end, "score": span.score, **facts}
    return {"answer": None, "start": None, "end": None, "score": span.no_answer_score, **facts}


def answer_routes(service: Service) -> list[ByItself]:
    """`/answer`, over the models of a server."""

    async def answer(request: Request) -> Response:
        asked = read_body(AnswerRequest, await request.body(), forms=_FORMS)
        chosen = service.catalogue.find(asked.model, asked.version)
        threshold = threshold_of(rule_at("/answer", chosen), asked.threshold)
        answers = await service.answer(asked.questions(), chosen, truncate=asked.truncate)
        return predicted(answers_of(answers, threshold), chosen)

    return [ByItself("/answer", answer, methods=["POST"])]


def described_router() -> APIRouter:
    """`/answer` as the page at `/docs` shows it."""
    router = APIRouter(tags=["answer"])

    @router.post("/answer", summary="Answer questions by spans of their contexts")
    async def answer(request: AnswerRequest) -> AnswerResponse:
        raise NotImplementedError

    return router
