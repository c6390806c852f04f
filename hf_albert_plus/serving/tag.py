"""`POST /tag`: what it takes and gives, and its route."""

from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..engines.text_answers import AnswerRule, TextAnswers
from ..engines.text_words import TaggedEntity, TaggedWord, tagged_texts, words_of
from ..tasks.word_pieces import Span, joined
from .json_problems import refusal_of
from .plain_routes import ByItself
from .service import Service, check_route, predicted

_FORMS = "a text, an object with words, or a list of these"
Word = Annotated[str, Field(min_length=1)]


class Words(BaseModel):
    """The words of a text, one by one; characters are counted in the text that they are with blanks between them."""

    model_config = ConfigDict(extra="forbid", strict=True)
    words: list[Word] = Field(min_length=1)


class TagRequest(BaseModel):
    """A text, its words, or a list of these."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"inputs": ["play it on Radio Bremen", {"words": ["in", "New York"]}]}]},
    )
    inputs: str | Words | Annotated[list[str | Words], Field(min_length=1)]
    model: str | None = Field(default=None, description="Needed where several are served.")
    version: str | None = Field(default=None, description="The highest by default.", max_length=20)
    truncate: bool | None = Field(
        default=None, description="Cut texts that are too long instead of refusing them. Default: the server's own."
    )

    def texts(self) -> list[tuple[str, list[Span]]]:
        """The texts, and the characters of their words."""
        given = self.inputs if isinstance(self.inputs, list) else [self.inputs]
        return [(one, words_of(one)) if isinstance(one, str) else joined(one.words) for one in given]


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


def read_tag(body: bytes) -> TagRequest:
    """A request.

    Raises:
        RequestError: no JSON, or another form.
    """
    try:
        return TagRequest.model_validate_json(body)
    except ValidationError as error:
        raise refusal_of(error, body, forms=_FORMS) from None


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
        asked = read_tag(await request.body())
        chosen = service.catalogue.find(asked.model, asked.version)
        check_route(chosen, "/tag")
        texts = asked.texts()
        answers = await service.answer([text for text, _ in texts], chosen, truncate=asked.truncate)
        return predicted(tags_of(texts, answers, chosen.model.facts.rule), chosen)

    return [ByItself("/tag", tag, methods=["POST"])]


def described_router() -> APIRouter:
    """`/tag` as the page at `/docs` shows it."""
    router = APIRouter(tags=["tag"])

    @router.post("/tag", summary="Tag the words of texts")
    async def tag(request: TagRequest) -> TagResponse:
        raise NotImplementedError

    return router
