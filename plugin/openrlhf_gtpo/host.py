"""What subclasses of OpenRLHF's classes need: the classes behind ``@ray.remote``, and a check that what they override
is there."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from openrlhf_gtpo.errors import UserError

SUPPORTED = ("0.11.2", "0.12")
"""Versions of OpenRLHF: from the first (included) to the second (excluded)."""


def check_version() -> None:
    """Make sure that OpenRLHF is one that the plugin was written for.

    Raises:
        UserError: it is another, or missing. The sentence says what to install.
    """
    from packaging.specifiers import SpecifierSet

    low, high = SUPPORTED
    try:
        installed = version("openrlhf")
    except PackageNotFoundError:
        installed = "none"
    if installed == "none" or installed not in SpecifierSet(f">={low},<{high}"):
        raise UserError(
            f'The plugin fits OpenRLHF {low}, but found {installed}: pip install "openrlhf>={low},<{high}".'
        )


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
            if not any(name in vars(base) for base in cls.__mro__ if base.__module__.startswith("openrlhf.")):
                raise UserError(
                    f"OpenRLHF {version('openrlhf')} has no {name} in the classes of {cls.__name__}, so this is not "
                    f"the "
                    f"version that the plugin was written for: pip install openrlhf=={SUPPORTED[0]}."
                )
        return cls

    return checked
