"""Makes the options of a verb from the settings classes that it takes, so that each setting is declared once, in its class.

A verb names a settings class in its signature and gets an object of it:

    @with_settings
    def prune(model: Model, settings: Annotated[PruneSettings, Fields(without=("warmup",))], threads: Threads = None) -> None: ...

Type, default and help of every option are those of the class's field (`hf_albert_plus/option.py`).
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from dataclasses import Field as DataclassField
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from ..option import Option, PythonOnly


@dataclass(frozen=True)
class Fields:
    """Which fields of a settings class a verb has options for, where these are not all.

    Attributes:
        only: these alone.
        without: all but these.
        panel: the heading in `--help` that their options stand under.
    """

    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    panel: str | None = None


ALL = Fields()


@dataclass(frozen=True)
class FromOptions:
    """A parameter of a verb that is made from a settings object, by the object's `chosen`.

    What comes out may have a `task`, whose values are the defaults of the options `of_task`.

    Attributes:
        kind: the settings class.
        panel: the heading in `--help` that its options stand under.
    """

    kind: type
    panel: str | None = None


@dataclass(frozen=True)
class SettingOption:
    """One field of a settings class as an option.

    Attributes:
        name: the field's.
        kind: type of the field's value, without None.
        default: the class's, MISSING where it has none.
    """

    name: str
    kind: Any
    default: Any
    optional: bool
    option: Option
    panel: str | None

    @property
    def word(self) -> str:
        """The option's name on the command line."""
        return self.option.name or f"--{self.name.replace('_', '-')}"

    @property
    def is_required(self) -> bool:
        return self.default is MISSING and not self.option.of_task

    @property
    def shown(self) -> Any:
        """The default as the command line has it."""
        if self.default is MISSING or self.option.of_task or self.default is None or self.default == ():
            return None
        if self.option.default is not None:
            return self.option.default
        if self.option.parse is not None:
            several = isinstance(self.default, tuple)
            return ",".join(map(str, self.default)) if several else str(self.default)
        return list(self.default) if isinstance(self.default, tuple) else self.default

    @property
    def annotation(self) -> Any:
        """What typer makes the option from."""
        kind: Any = self.kind
        if self.option.parse is not None:
            kind = str
        elif get_origin(kind) is tuple:
            kind = list[get_args(kind)[0]]  # type: ignore[misc]
        if self.shown is None and not self.is_required:
            kind = kind | None
        info = typer.Option(
            *(() if self.kind is bool and self.default is not False else (self.word, *self.option.also)),
            help=self.option.help,
            metavar=self.option.metavar,
            min=self.option.least,
            max=self.option.most,
            rich_help_panel=self.panel,
        )
        return Annotated[kind, info]

    @property
    def parameter(self) -> inspect.Parameter:
        default = inspect.Parameter.empty if self.is_required else self.shown
        return inspect.Parameter(self.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=self.annotation)

    def value(self, given: Any, *, task: Any) -> Any:
        """The field's value for what the command line gives; MISSING leaves it to the class's default."""
        if given is None and self.option.of_task and task is not None:
            return getattr(task, self.name)
        if given is None:
            return MISSING
        if self.option.parse is not None:
            return self.option.parse(given)
        return tuple(given) if get_origin(self.kind) is tuple else given


# Stands for a task whose values no rule refuses, until there is one.
_ANY = SimpleNamespace(epochs=1.0, batch_size=1, max_length=128)


@dataclass(frozen=True)
class _Injected:
    """A parameter of a verb that is a settings object."""

    kind: type
    options: dict[str, SettingOption]
    is_chosen: bool

    def build(self, values: Mapping[str, Any], *, task: Any) -> Any:
        given = {name: option.value(values[name], task=task) for name, option in self.options.items()}
        return self.kind(**{name: value for name, value in given.items() if value is not MISSING})


def with_settings(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb as typer calls it: with an option for each field of the settings classes that it takes."""
    hints = get_type_hints(verb, include_extras=True)
    parameters: dict[str, inspect.Parameter] = {}
    injected: dict[str, _Injected] = {}
    shared: dict[str, SettingOption] = {}
    for parameter in inspect.signature(verb).parameters.values():
        kind, chosen, is_chosen = _settings_class(hints[parameter.name])
        if kind is None:
            _add(parameters, parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        options = {option.name: option for option in sorted(setting_options(kind, chosen), key=_comes_later)}
        injected[parameter.name] = _Injected(kind, options, is_chosen)
        for name, option in injected[parameter.name].options.items():
            if name in shared:  # two settings classes have one option, where it is the same in both
                _check_same(shared[name], option)
                continue
            shared[name] = option
            _add(parameters, option.parameter)

    @functools.wraps(verb)
    def call(**values: Any) -> None:
        for one in injected.values() if any(one.is_chosen for one in injected.values()) else ():
            one.build(values, task=_ANY)  # what was typed is looked at before any data are
        choices = {name: one.build(values, task=None).chosen(values) for name, one in injected.items() if one.is_chosen}
        task = next((choice.task for choice in choices.values() if choice is not None), None)
        made = choices | {name: one.build(values, task=task) for name, one in injected.items() if name not in choices}
        of_settings = {name for one in injected.values() for name in one.options}
        verb(**{name: value for name, value in values.items() if name not in of_settings}, **made)

    call.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    call.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    return call


def settings_of(verb: Callable[..., None]) -> list[tuple[type, Fields]]:
    """The settings classes that a verb takes, and which of their fields have options."""
    hints = get_type_hints(inspect.unwrap(verb), include_extras=True)
    found = [_settings_class(hint) for hint in hints.values()]
    return [(kind, chosen) for kind, chosen, _ in found if kind is not None]


def setting_options(kind: type, chosen: Fields = ALL) -> Iterator[SettingOption]:
    """The options of a settings class.

    Raises:
        TypeError: a field that does not say what its option is, or a chosen name that is no field's.
    """
    declared = {field.name: field for field in fields(kind)}
    for name in (*chosen.only, *chosen.without):
        if name not in declared:
            raise TypeError(f"{kind.__name__} has no field {name}")
    hints = get_type_hints(kind, include_extras=True)
    for name, field in declared.items():
        said = _said(kind, name, hints[name])
        if said is None:
            raise TypeError(f"{kind.__name__}.{name} must say its Option, or that it is PythonOnly")
        if isinstance(said, PythonOnly) or name in chosen.without or (chosen.only and name not in chosen.only):
            continue
        bare = get_args(hints[name])[0] if get_origin(hints[name]) is Annotated else hints[name]
        value_kind, optional = _without_none(bare)
        yield SettingOption(name, value_kind, _default(field), optional, said, chosen.panel)


def _said(kind: type, name: str, hint: Any) -> Option | PythonOnly | None:
    """What a class says of a field; where it gives only another default, what its parent says."""
    for said in get_args(hint)[1:] if get_origin(hint) is Annotated else ():
        if isinstance(said, Option | PythonOnly):
            return said
    for parent in kind.__mro__[1:]:
        if is_dataclass(parent) and name in parent.__annotations__:
            return _said(parent, name, get_type_hints(parent, include_extras=True)[name])
    return None


def _comes_later(option: SettingOption) -> bool:
    """What is asked for first stands first: data and task, whichever class declares them."""
    return option.name not in ("data", "task")


def _settings_class(hint: Any) -> tuple[type | None, Fields, bool]:
    """The settings class of a parameter, if it has one, which of its fields are options, and whether the parameter is what its
    `chosen` makes."""
    bare, *said = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    source = next((one for one in said if isinstance(one, FromOptions)), None)
    if source is not None:
        return source.kind, Fields(panel=source.panel), True
    if not (isinstance(bare, type) and is_dataclass(bare)):
        return None, ALL, False
    return bare, next((one for one in said if isinstance(one, Fields)), ALL), False


def _without_none(kind: Any) -> tuple[Any, bool]:
    """`int | None` -> int, True."""
    if get_origin(kind) not in (Union, UnionType):
        return kind, False
    inner = [one for one in get_args(kind) if one is not NoneType]
    if len(inner) != 1 or not _is_simple(inner[0]):
        raise TypeError(f"{kind} has no option")
    return inner[0], True


def _is_simple(kind: Any) -> bool:
    return get_origin(kind) is Literal or isinstance(kind, type)


def _default(field: "DataclassField[Any]") -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _add(parameters: dict[str, inspect.Parameter], parameter: inspect.Parameter) -> None:
    if parameter.name in parameters:
        raise TypeError(f"{parameter.name} is declared twice")
    parameters[parameter.name] = parameter


def _check_same(one: SettingOption, other: SettingOption) -> None:
    if (one.kind, one.optional, one.default) != (other.kind, other.optional, other.default):
        raise TypeError(f"two settings classes declare {one.name} differently")
