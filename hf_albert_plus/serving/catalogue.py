"""The models that are served: names, versions of each, and which one answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .answers import Model
from .errors import UnknownModel


@dataclass
class Catalogue:
    """
    Attributes:
        models: name -> version -> model. Replaced as a whole, so that a request sees one state of it.
    """

    models: Mapping[str, Mapping[int, Model]] = field(default_factory=dict)

    def find(self, name: str | None, version: str | None = None) -> tuple[str, int, Model]:
        """The model that answers: the only one where no name is given, the highest version where none is.

        Raises:
            UnknownModel: no such model, or several to choose from.
        """
        models = self.models
        if name is None:
            if len(models) != 1:
                raise UnknownModel(
                    f"several models are served, so a request must name one: {', '.join(sorted(models))}"
                )
            (name,) = models
        versions = models.get(name)
        if not versions:
            raise UnknownModel(f"no model of that name; there is {', '.join(sorted(models)) or 'none'}")
        if version is None:
            number = max(versions)
        elif version.isascii() and version.isdigit() and int(version) in versions:
            number = int(version)
        else:
            raise UnknownModel(f"{name} has no such version; it has {', '.join(map(str, sorted(versions)))}")
        return name, number, versions[number]


__all__ = ["Catalogue"]
