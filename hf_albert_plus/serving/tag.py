"""`POST /tag`: what it takes and gives, and its route."""

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, field_validator

from ..engines.text_answers import AnswerRule, TextAnswers
from ..engines.text_words import TaggedEntity, TaggedWord, check_words, tagged_texts, worded
from ..tasks.word_pieces import Span
from .answer_kinds import rule_at
from .json_problems import read_body
from .plain_routes import ByItself
from .request_fields import ModelName, Truncate, Version
from .service import Service, predicted

_FORMS = "a text, an object with words, or a list of these"
Word = Annotated[str, Field(min_length=1)]


class Words(BaseModel):
    """The words of a text, one by one; characters are counted in the text that they are with blanks between them."""

    model_config = ConfigDict(extra="forbid", strict=True)
    words: list[Word] = Field(min_length=1)

    @field_validator("words", mode="before")
    @classmethod
    def _refuse_what_has_no_tag(cls, given: Any) -> list[str]:
        """With the sentence that everybody else is told."""
        return check_words(given)


class TagRequest(BaseModel):
    """A text, its words, or a list of these."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"inputs": ["play it on Radio Bremen", {"words": ["in", "New York"]}]}]},
    )
    inputs: str | Words | Annotated[list[str | Words], Field(min_length=1)]
    model: ModelName = None
    version: Version = None
    truncate: Truncate = None

    def texts(self) -> list[tuple[str, list[Span]]]:
        """The texts, and the characters of their words."""
        given = self.inputs if isinstance(self.inputs, list) else [self.inputs]
        return worded([one if isinstance(one, str) else one.words for one in given])


class Tags(BaseModel):
    """What a model says of one text: a tag for each word, and the entities that these are.

    `start` and `end` count characters (Unicode's code points) of the text as it came.
    """

    words: list[TaggedWord]
    entities: list[TaggedEntity]
    tokens: int
    truncated: bool


class TagResponse(BaseModel):
    """The tags, in the order of the inputs."""

    model: str
    version: str
    predictions: list[Tags]


def tags_of(texts: list[tuple[str, list[Span]]], answers: TextAnswers, rule: AnswerRule) -> list[dict[str, Any]]:
    """The words and entities of every text, each with the fields of `Tags`."""
    said = zip(tagged_texts(texts, answers, rule), answers.tokens, answers.truncated, strict=True)
    return [
        {"words": tagged.words, "entities": tagged.entities, "tokens": tokens, "truncated": truncated}
        for tagged, tokens, truncated in said
    ]


def tag_routes(service: Service) -> list[ByItself]:
    """`/tag`, over the models of a server."""

    async def tag(request: Request) -> Response:
        asked = read_body(TagRequest, await request.body(), forms=_FORMS)
        chosen = service.catalogue.find(asked.model, asked.version)
        rule = rule_at("/tag", chosen)
        texts = asked.texts()
        answers = await service.answer([text for text, _ in texts], chosen, truncate=asked.truncate)
        return predicted(tags_of(texts, answers, rule), chosen)

    return [ByItself("/tag", tag, methods=["POST"])]


def described_router() -> APIRouter:
    """`/tag` as the page at `/docs` shows it."""
    router = APIRouter(tags=["tag"])

    @router.post("/tag", summary="Tag the words of texts")
    async def tag(request: TagRequest) -> TagResponse:
        raise NotImplementedError

    return router
