"""Addresses of callers, also behind proxies that the configuration names."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from documents.errors import InputError, show
from documents.late_methods import dataclass
from documents.sentences import Sentence

_MAX_HOPS = 16  # proxies between a caller and the server
_MAX_ADDRESS = 64  # characters


def network_of(host: str) -> str:
    """The address, or the 64-bit network of an IPv6 address, which one caller has for itself."""
    address = _address(host)
    if address is None or address.version == 4:
        return host if address is None else str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """The IP address in the text, which may have a port; None if there is none. IPv4 inside IPv6 is IPv4."""
    host = text.strip()[:_MAX_ADDRESS]
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


@dataclass(frozen=True)
class Proxies:
    """Proxies whose ``X-Forwarded-For`` is believed."""

    networks: Sequence[IPv4Network | IPv6Network] = ()

    def trusts(self, host: str) -> bool:
        address = _address(host)
        return address is not None and any(address in network for network in self.networks)

    def caller(self, host: str, forwarded: Sequence[str]) -> str:
        """The nearest address that is no trusted proxy: of the connection, or of the fields that trusted proxies wrote.

        Each proxy appends the address that it was called from. Addresses before one that no trusted proxy wrote are anybody's.
        """
        if not self.trusts(host):
            return host
        hops = [hop for field in forwarded for hop in field.split(",")][-_MAX_HOPS:]
        for hop in reversed(hops):
            address = _address(hop)
            if address is None:
                break
            host = str(address)
            if not self.trusts(host):
                break
        return host


NO_PROXIES = Proxies()


def parse_proxies(text: str, name: str) -> Proxies:
    """The proxies in a list of addresses and networks with commas; ``InputError`` with ``name`` for anything else."""
    networks = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        try:
            networks.append(ipaddress.ip_network(part))
        except ValueError:
            raise InputError(
                Sentence("{}: {} is no IP address or network; give the proxies as in 10.0.0.5, 10.1.0.0/24.", name, show(part))
            ) from None
    return Proxies(tuple(networks))


class Forwarded:
    """ASGI middleware. The caller of a request that came through a trusted proxy is the proxy's caller."""

    def __init__(self, app: ASGIApp, proxies: Proxies) -> None:
        self.app, self._proxies = app, proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        if scope["type"] == "http" and client and self._proxies.networks:
            host = self._proxies.caller(client[0], Headers(scope=scope).getlist("x-forwarded-for"))
            if host != client[0]:
                scope["client"] = (host, 0)
        await self.app(scope, receive, send)
