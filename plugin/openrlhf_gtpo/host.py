"""What subclasses of OpenRLHF's classes need: the classes behind ``@ray.remote``, and a check that what they override
is there."""

from importlib.metadata import version
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
            if not any(name in vars(base) for base in cls.__mro__ if base.__module__.startswith("openrlhf.")):
                raise UserError(
                    f"OpenRLHF {version('openrlhf')} has no {name} in the classes of {cls.__name__}, so this is not "
                    f"the "
                    f"version that the plugin was written for: pip install openrlhf=={SUPPORTED[0]}."
                )
        return cls

    return checked
