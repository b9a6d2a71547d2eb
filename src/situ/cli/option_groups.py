"""Commands that take their options as one dataclass, because a list of twenty parameters says nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature
from typing import Any, TypeVar, get_type_hints

Options = TypeVar("Options")


def takes(options_type: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Makes a command of a function that takes one dataclass: every field is an option or an argument.

    A field that is itself a dataclass is a group of options, which stand in its place.

    >>> from dataclasses import make_dataclass
    >>> from inspect import signature
    >>> Colours = make_dataclass("Colours", [("line", str, "red")])
    >>> Drawing = make_dataclass("Drawing", [("file", str), ("colours", Colours)])
    >>> draw = takes(Drawing)(print)
    >>> list(signature(draw).parameters)
    ['file', 'line']
    >>> draw(file="a.svg", line="blue")
    Drawing(file='a.svg', colours=Colours(line='blue'))
    """
    parameters = list(_parameters(options_type))

    def to_command(function: Callable[[Options], None]) -> Callable[..., None]:
        @wraps(function)
        def command(**values: Any) -> None:
            function(_options(options_type, values))

        # typer reads both: the signature for defaults, the annotations for types.
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return to_command


def _parameters(options_type: Any) -> Iterator[Parameter]:
    """One keyword for each field, those of groups among them."""
    for field, hint in _typed_fields(options_type):
        if is_dataclass(hint):
            yield from _parameters(hint)
        else:
            default = Parameter.empty if field.default is MISSING else field.default
            yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _options(options_type: Any, values: dict[str, Any]) -> Any:
    """The dataclass with these values by name; groups take theirs."""
    return options_type(
        **{
            field.name: _options(hint, values) if is_dataclass(hint) else values[field.name]
            for field, hint in _typed_fields(options_type)
        }
    )


def _typed_fields(options_type: Any) -> list[tuple[Field[Any], Any]]:
    hints = get_type_hints(options_type, include_extras=True)
    return [(field, hints[field.name]) for field in fields(options_type)]
