"""The verbs about architectures: list the named ones, and turn a checkpoint into another one."""

from typing import Annotated, Any

import typer

from ..conversion.settings import Combination
from ..hub_connection import check_model
from . import options as o
from .console import done, print_json, print_rows, quiet_libraries, start
from .settings_options import with_settings
from .task_options import MaybeLearned


def variants(
    length: Annotated[
        int, typer.Option(min=1, max=1 << 20, help="Tokens of the sequence that FLOPs are counted for.")
    ] = 128,
    as_json: o.JsonOut = False,
) -> None:
    """List the named architectures with parameters, FLOPs and file size."""
    quiet_libraries()
    from ..config_building import measure, variant_config
    from ..records.progress import track
    from ..variants import VARIANTS

    rows: list[dict[str, Any]] = []
    for name, variant in track(VARIANTS.items(), total=len(VARIANTS), description="count"):
        config = variant_config(name)
        size = measure(config, length=length)
        rows.append(
            {
                "variant": name,
                "layers": config.num_hidden_layers,
                "hidden_size": config.hidden_size,
                "embedding_size": config.embedding_size,
                "attention_sharing": config.attention_sharing,
                "ffn_sharing": config.ffn_sharing,
                "parameters": size.parameters,
                "flops": size.flops,
                "file_bytes": size.file_bytes,
                "source": variant.source,
            }
        )
    if as_json:
        print_json({"length": length, "variants": rows})
        return
    header = [
        "variant",
        "layers",
        "H",
        "E",
        "attention",
        "ffn",
        "parameters",
        f"GFLOPs at {length}",
        "file MB",
        "source",
    ]
    print_rows(
        header,
        [
            [
                row["variant"], str(row["layers"]), str(row["hidden_size"]), str(row["embedding_size"]),
                str(row["attention_sharing"]), str(row["ffn_sharing"]), f"{row['parameters']:,}",
                f"{row['flops'] / 1e9:.2f}", f"{row['file_bytes'] / 1e6:.1f}", row["source"],
            ]
            for row in rows
        ],
    )  # fmt: skip


@with_settings
def convert(
    source: Annotated[
        str,
        typer.Argument(
            help="Directory or Hub id: ALBERT, BERT, DistilBERT, MobileBERT, MPNet, (XLM-)RoBERTa or ALBERT-plus."
        ),
    ],
    out: o.Out,
    on: MaybeLearned,
    variant: Annotated[
        str | None, typer.Option(help="Start this architecture from SOURCE: albert-plus variants.")
    ] = None,
    set_: o.Set = None,
    initialise: Annotated[
        Combination, typer.Option(help="With --variant or --set: how layers become a shared block.")
    ] = "average",
    layers: Annotated[
        str | None, typer.Option(help="SOURCE's layer for every layer of the new model: 0,2,4,7,9,11.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="bert, albert or mobilebert: convert an ALBERT-plus model back; encoder: leave out the head, so that another task can start."
        ),
    ] = None,
    as_json: o.JsonOut = False,
) -> None:
    """Convert a checkpoint into the ALBERT-plus model that computes the same, or start another one from it.

    With --variant, --set or --layers the outcome is a named initialisation and has to be trained. Embeddings that become narrower
    keep the most of what the training texts of --data read.
    """
    check_model(source, option="SOURCE")
    start(None)
    from ..config_building import parse_layers, parse_settings
    from ..conversion.stage import convert as stage

    record = stage(
        source,
        output=out,
        variant=variant,
        overrides=parse_settings(set_ or []),
        initialise=initialise,
        layers=None if layers is None else parse_layers(layers),
        to=to,
        data=None if on is None else on.data,
        task=None if on is None else on.task,
    )
    done(record, out, as_json=as_json)
