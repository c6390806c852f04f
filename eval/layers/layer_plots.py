"""Plots of what layers do: distance, angle and entropy by layer, all models in one plot, and how alike the layers of each are."""

from collections.abc import Sequence
from statistics import fmean

from hf_albert_plus.eval.layers.measures import LayerFigures
from hf_albert_plus.eval.reporting.plots import COLOURS, Figure, as_svg


def layers_svg(models: Sequence[LayerFigures]) -> str:
    """By layer: L2 distance and degrees between its input and its output, and the entropy of its heads, a dot a head and a line
    through their means."""
    with Figure(height=7.2 + 0.1 * len(models), panels=3) as (figure, panels):
        distance, angle, entropy = panels
        for number, model in enumerate(models):
            style = {"color": COLOURS[number % len(COLOURS)], "linewidth": 1}
            layers = range(1, len(model.distances) + 1)
            distance.plot(layers, model.distances, marker="o", markersize=3, label=model.name, **style)
            angle.plot(layers, model.angles, marker="o", markersize=3, **style)
            entropy.plot(layers, [fmean(heads) for heads in model.entropies], **style)
            dots = [(layer, value) for layer, heads in zip(layers, model.entropies, strict=True) for value in heads]
            entropy.scatter(*zip(*dots, strict=True), s=6, alpha=0.5, color=style["color"])
        for panel, label in zip(panels, ("L2 distance", "angle, degrees", "entropy of heads, nats"), strict=True):
            panel.set_ylabel(label)
            panel.xaxis.get_major_locator().set_params(integer=True)
            panel.set_ylim(bottom=0)
            panel.grid()
        entropy.set_xlabel("layer")
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)
        return as_svg(figure)


def likeness_svg(models: Sequence[LayerFigures]) -> str:
    """How alike the hidden states are, from before the first layer (0) to after the last, a square a model."""
    with Figure(height=3.4 * len(models), panels=len(models)) as (figure, panels):
        for panel, model in zip(panels, models, strict=True):
            image = panel.imshow(model.likeness, vmin=0, vmax=1, origin="lower", cmap="viridis")
            panel.set_title(model.name, fontsize=10)
            panel.set_xlabel("after layer")
            panel.set_ylabel("after layer")
            for axis in (panel.xaxis, panel.yaxis):
                axis.get_major_locator().set_params(integer=True)
        figure.colorbar(image, ax=panels, label="linear CKA", shrink=0.8)
        return as_svg(figure)
