"""Which names a service without a token answers to.

A page of any site can have its name resolved to this machine (DNS rebinding), and its scripts then read what the
service answers, as a page of its own could. They cannot change the Host header, which has the site's name.
"""

import ipaddress


def is_own_name(host: bytes, names: frozenset[str]) -> bool:
    """Whether a Host header can only be meant for this service: an address, a name that no site of the internet can
    have (``localhost``, one without a dot), or one of ``names``. Those are in lower case.
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
