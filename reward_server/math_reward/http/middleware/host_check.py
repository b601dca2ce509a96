"""Decides which host names a service without a token answers to.

Any site can let its name resolve to this machine (DNS rebinding): the scripts of its pages could then read the
service's answers. But they cannot change the Host header, which has that site's name.
"""

import ipaddress


def is_own_name(host: bytes, names: frozenset[str]) -> bool:
    """Whether a Host header has no other site's name: it is an address, a name that no site on the internet can have
    (``localhost``, or a name without a dot), or one of ``names``, which are in lower case.
    """
    name = host.decode("latin-1").lower()
    if name.startswith("["):
        address, _, port = name[1:].partition("]")
        return _is_address(address) and (not port or port.startswith(":"))
    name = name.partition(":")[0].rstrip(".")
    return "." not in name or name.endswith(".localhost") or name in names or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
