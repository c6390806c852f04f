"""The catalogue of the models that are served: names, versions of each, and which one answers a request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy

from ..engines.text_answers import ModelFacts, Text, TextAnswers
from .refusals import NotReady, UnknownModel


class AskableModel(Protocol):
    """A model that can be asked, in this process or in another one."""

    facts: ModelFacts

    async def answer(self, texts: Sequence[Text], *, truncate: bool) -> TextAnswers: ...

    async def infer(self, tensors: Mapping[str, numpy.ndarray]) -> TextAnswers: ...


class ChosenModel(NamedTuple):
    """The model that answers a request, under the name and version that it has."""

    name: str
    version: int
    model: AskableModel


@dataclass
class Catalogue:
    """The models of a server at a moment.

    Attributes:
        models: name -> version -> model. Replaced as a whole, so that a request sees one state of it.
        refused: name -> version -> why it does not serve. Replaced as a whole as well.
    """

    models: Mapping[str, Mapping[int, AskableModel]] = field(default_factory=dict)
    refused: Mapping[str, Mapping[int, str]] = field(default_factory=dict)

    def find(self, name: str | None, version: str | None = None) -> ChosenModel:
        """The model that answers: the only one where no name is given, the highest version where none is.

        Raises:
            UnknownModel: no such model, or several to choose from.
            NotReady: it is there, and not fit to serve.
        """
        models = self.models
        if name is None:
            if len(models) != 1:
                raise UnknownModel(
                    f"several models are served, so a request must name one: {', '.join(sorted(models))}"
                )
            (name,) = models
        versions, refused = models.get(name, {}), self.refused.get(name, {})
        # What a request calls a version is compared, and never read as a number: it may have any length.
        for number, why in refused.items():
            if number not in versions and (str(number) == version or (version is None and not versions)):
                raise NotReady(f"{name} {number} does not serve: {why}")
        if not versions:
            raise UnknownModel(f"no model of that name; there is {', '.join(sorted(models)) or 'none'}")
        if version is None:
            number = max(versions)
            return ChosenModel(name, number, versions[number])
        for number, model in versions.items():
            if str(number) == version:
                return ChosenModel(name, number, model)
        raise UnknownModel(f"{name} has no such version; it has {', '.join(map(str, sorted(versions)))}")
