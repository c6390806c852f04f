"""Fields that the requests of several routes have."""

from typing import Annotated

from pydantic import Field

ModelName = Annotated[str | None, Field(description="Needed where several are served.")]
Version = Annotated[str | None, Field(description="The highest by default.", max_length=20)]
Truncate = Annotated[
    bool | None,
    Field(description="Cut texts that are too long instead of refusing them. Default: the server's own."),
]
Dimensions = Annotated[
    int | None,
    Field(
        ge=1,
        description="Numbers of a vector, fewer than the model's own where it was trained for such prefixes (its `matryoshka_dims`).",
    ),
]
