"""What taking the places of OpenRLHF's classes needs: those behind ``@ray.remote``, and checks that what is overridden
or replaced is there."""

import contextlib
from importlib.metadata import version
from types import ModuleType
from typing import Any

from openrlhf_gtpo.errors import UserError
from openrlhf_gtpo.flags import SUPPORTED


def plain_class(remote_class: Any) -> type:
    """The class behind an ``@ray.remote`` class, which can be subclassed."""
    return remote_class.__ray_metadata__.modified_class


def rebuilt_as(cls: type, instance: Any) -> Any:
    """A copy of an object as an instance of a subclass, with the same attributes."""
    new: Any = object.__new__(cls)
    new.__dict__.update(instance.__dict__)
    return new


def overrides(*names: str) -> Any:
    """A decorator for a class: OpenRLHF has these methods, which it calls, so that ours take their place.

    Raises:
        UserError: when the class is made, if OpenRLHF has none of one of the names.
    """

    def checked(cls: type) -> type:
        for name in names:
            theirs = [base for base in cls.__mro__ if base.__module__.startswith("openrlhf.")]
            _require(any(name in vars(base) for base in theirs), f"{name} in the classes of {cls.__name__}")
        return cls

    return checked


def replace(module: ModuleType, **ours: Any) -> contextlib.ExitStack:
    """Put ours in the places of a module's names: for good or, as a context, until it ends.

    Raises:
        UserError: OpenRLHF's module has none of one of the names, so that nobody would use ours.
    """
    before = contextlib.ExitStack()
    for name, our in ours.items():
        _require(hasattr(module, name), f"{name} in {module.__name__}")
        before.callback(setattr, module, name, getattr(module, name))
        setattr(module, name, our)
    return before


def _require(is_there: bool, what: str) -> None:
    if not is_there:
        raise UserError(
            f"OpenRLHF {version('openrlhf')} has no {what}, so this is not the version that the plugin was written "
            f"for: pip install openrlhf=={SUPPORTED[0]}."
        )
