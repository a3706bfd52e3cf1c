"""How things are written as one word, ``name:setting=value,…``, and read back."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from fractions import Fraction
from functools import cache
from html import escape
from inspect import Signature, signature
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from coopbandits.core.errors import InputError, unknown_name

if TYPE_CHECKING:
    from coopbandits.core.registry import Registry


AUTO = "auto"
"""Value of a setting that is found out from what else is known."""


class Settings(ABCMeta):
    """What makes things of settings: those that do not fit are refused with a sentence."""

    if not TYPE_CHECKING:  # pragma: no branch  a type checker goes by the fields

        def __call__(cls, *values: Any, **settings: Any) -> Any:
            """Make one; Python's own error names neither the settings nor the nearest one."""
            _require_defaults(cls)
            try:
                return super().__call__(*values, **settings)
            except TypeError:
                _require_fit(cls, values, settings)
                raise

    @property
    def __signature__(cls) -> Signature:
        """The signature that notebooks and the documentation show: that of `__init__`."""
        own = cls.__init__  # type: ignore[misc]  # the class's own, if any
        if own is object.__init__:
            return Signature()
        return Signature(list(signature(own).parameters.values())[1:])


@cache
def _require_defaults(cls: type) -> None:
    """Reject new defaults of settings that the decorator of a dataclass has not seen."""
    for parent in cls.__mro__:
        written = vars(parent)
        seen = written.get("__annotations__", {}) if "__dataclass_fields__" in written else {}
        for field in settings_of(cls):
            value = written.get(field.name, field.default)
            is_method = hasattr(value, "__get__")
            if field.name in written and field.name not in seen and not is_method:
                raise InputError(
                    f"{parent.__name__} gives its setting {field.name} the default {value!r}, "
                    f"which would not count; write {field.name}: {type(value).__name__} = "
                    f"{value!r}, and @dataclass(frozen=True) above the class"
                )


def _require_fit(cls: type, values: tuple[Any, ...], settings: dict[str, Any]) -> None:
    """Reject settings that a class does not have, and too few or too many of them."""
    names, name = [field.name for field in settings_of(cls)], cls.__name__
    if list(signature(cls).parameters) != names:
        return  # it has an `__init__` of its own
    for key in settings:
        if key not in names:
            raise unknown_name(f"setting of {name}", key, names) from None
    if len(values) > len(names) or set(names[: len(values)]) & settings.keys():
        raise InputError(
            f"{name} got {len(values) + len(settings)} settings; give each of "
            f"{', '.join(names) or 'none'} at most once"
        ) from None
    for key in required(cls):
        if key not in settings and key not in names[: len(values)]:
            raise InputError(f"{name} has no {key}; write {name}({key}=…)") from None


class Named(metaclass=Settings):
    """Settings with a name; as a frozen dataclass their fields make the spelling.

    Attributes
    ----------
    name : str
        What it is called. A class outside this package is found again by its module, and spelled
        ``module:Name`` unless it is registered or an entry point names it.
    registry : Registry
        Where its kind is looked up.
    """

    name: ClassVar[str]
    registry: ClassVar[Registry[Any] | None] = None

    @classmethod
    def full_name(cls) -> str:
        """Return the text by which the class is found again."""
        return cls.name if cls.registry is None else cls.registry.name_of(cls)

    @property
    def spelling(self) -> str:
        """The policy as one word, as on the command line: settings at their default left out."""
        changed = [
            f"{setting.name}={spell(getattr(self, setting.name))}"
            for setting in settings_of(type(self))
            if getattr(self, setting.name) != setting.default
        ]
        return self.full_name() + (":" + ",".join(changed) if changed else "")

    def suited(self, family: str) -> Self:
        """Return the same for a family of rewards: it replaces every `family` that is "auto".

        Settings that are parts or policies themselves are suited as well.
        """
        changes: dict[str, Any] = {}
        for setting in settings_of(type(self)):
            value = getattr(self, setting.name)
            if setting.name == "family" and value == AUTO:
                changes[setting.name] = family
            elif isinstance(value, Named) and (suited := value.suited(family)) is not value:
                changes[setting.name] = suited
        return replace(self, **changes) if changes else self  # type: ignore[type-var]  # it has fields

    @property
    def bonus_constant(self) -> float | None:
        """B of a bonus sqrt(B σ² ln t / n): the setting `constant` where there is one.

        A policy that makes its B of other settings says so; None where there is no such bonus.
        """
        constant: float | None = getattr(self, "constant", None)
        return constant

    def with_constant(self, constant: float) -> Self:
        """Return the same with another `bonus_constant`; itself where it has none."""
        if self.bonus_constant is None:
            return self
        names = [setting.name for setting in settings_of(type(self))]
        if "constant" in names:
            return replace(self, constant=constant)  # type: ignore[type-var]  # it has fields
        changes: dict[str, Any] = {}
        for name in names:
            if isinstance(part := getattr(self, name), Named) and part.bonus_constant is not None:
                changes[name] = part.with_constant(constant)
        if not changes:
            raise InputError(f"{self.spelling} does not say how its bonus constant is set")
        return replace(self, **changes)  # type: ignore[type-var]  # it has fields


SHIPPED = tuple(
    f"coopbandits.{part}." for part in ("core", "literature", "network", "problems", "sim")
)


def is_ours(thing: Any) -> bool:
    """Tell whether a thing's class comes with the package, so that tests have tried it."""
    return type(thing).__module__.startswith(SHIPPED)


Found = TypeVar("Found", bound=Named)
Made = TypeVar("Made")


def parse_named(registry: Registry[type[Found]], text: str, examples: Sequence[str] = ()) -> Found:
    """Read a spelling ``name:setting=value,…``; `examples` show settings without a default."""
    found, rest = registry.find(text)
    name = registry.name_of(found)
    known = settings_of(found)
    owner = f"{registry.kind} {name}"
    settings: dict[str, Any] = {}
    for key, value in (_setting(owner, known, part) for part in rest.split(",") if part.strip()):
        if key in settings:
            raise InputError(f"setting {key} of {owner} is given twice; give it once")
        settings[key] = value
    for missing in required(found):
        if missing not in settings:
            shown = [f"such as {text}" for text in examples if text.startswith(f"{name}:")]
            raise InputError(
                ", ".join([f"{owner} has no {missing}; write {name}:{missing}=…", *shown])
            )
    return make(owner, found, **settings)


def settings_of(cls: type) -> tuple[Field[Any], ...]:
    """Return the settings of a class: the fields of a dataclass, and else none."""
    return tuple(field for field in fields(cls) if field.init) if is_dataclass(cls) else ()


def required(cls: type) -> tuple[str, ...]:
    """Return the names of settings without a default."""
    return tuple(
        field.name
        for field in settings_of(cls)
        if field.default is field.default_factory is MISSING
    )


def _setting(owner: str, known: tuple[Field[Any], ...], text: str) -> tuple[str, Any]:
    names = [field.name for field in known]
    key, equals, value = (part.strip() for part in text.partition("="))
    if not names:
        raise InputError(f"{owner} has no settings; leave out {text.strip()!r}")
    if not equals or not value:
        raise InputError(f"setting {text!r} of {owner} has no value; write name=value")
    if key not in names:
        raise unknown_name(f"setting of {owner}", key, names)
    return key, parse_value(value)


def make(owner: str, maker: Callable[..., Made], *values: Any, **settings: Any) -> Made:
    """Call a maker; turn the errors of custom classes into an `InputError`."""
    try:
        return maker(*values, **settings)
    except InputError:
        raise
    except (TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise InputError(f"{owner} cannot be made of these settings: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """Return type and message of an error on one line."""
    message = " ".join(str(error).split())
    return type(error).__name__ + (f": {message}" if message else "")


def spell(value: Any) -> str:
    """Spell a setting as the command line reads it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "..".join(spell(part) for part in value)
    if isinstance(value, float):
        return repr(float(value)).removesuffix(".0")  # a numpy float as well
    return str(value)


def parse_value(text: str) -> Any:
    """Read true, false, none, 3, 0.5, 1/22, 90..120, or leave a word as it is."""
    constants = {"true": True, "false": False, "none": None}
    if text.lower() in constants:
        return constants[text.lower()]
    if ".." in text:
        return tuple(parse_value(part) for part in text.split(".."))
    for kind in (int, float, Fraction):
        try:
            number = kind(text)
        except (ValueError, ZeroDivisionError):
            continue
        return float(number) if kind is Fraction else number
    return text


LEFT = 'style="text-align:left"'


def html_facts(title: str, facts: Sequence[tuple[str, object]]) -> str:
    """Return a table of names and values."""
    rows = "".join(
        f"<tr><th {LEFT}>{escape(name)}</th><td {LEFT}>{escape(str(value))}</td></tr>"
        for name, value in facts
    )
    return f"<div><strong>{escape(title)}</strong><table>{rows}</table></div>"
