"""Which requests a server answers: decided on method, path and headers alone, before any route is looked for.

- Host must be a name of this machine's loopback or one that was allowed, else 421: a site whose name is bound anew to
  127.0.0.1 (DNS rebinding) sends its own name.
- A server that has a token asks for it on every path but health, else 401. One on another address than loopback always
  has; the commands have one on loopback too (`server.kept_token`), where other users of the machine could ask.
- Writes come from our own page or from a program: Origin absent or ours, Sec-Fetch-Site same-origin or none, else 403;
  their body is JSON, else 415. What browsers send without asking first (forms, text/plain) is thereby refused.
"""

import ipaddress
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs

from discodvt.errors import BadRequest

HEALTH = "/api/health"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
READS = ("GET", "HEAD", "OPTIONS")
MOST_HEADERS = 100
MOST_HEADER_BYTES = 16 * 1024
MOST_PATH_BYTES = 8 * 1024
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::\d{1,5})?")
_JSON = re.compile(r"application/json(\s*;\s*charset=\"?utf-8\"?)?", re.IGNORECASE)
_ORIGIN = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:\d{1,5})?")


class HttpError(Exception):
    """An answer that is an error: a status, one line for a person, and the parameter it is about."""

    def __init__(self, status: int, message: str, *, param: str | None = None, headers: Mapping[str, str] = {}) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.headers = dict(headers)


@dataclass(frozen=True, slots=True)
class Access:
    """Where a server listens and whom it answers; `make_access` makes one."""

    host: str
    port: int
    hosts: tuple[str, ...]  # names a Host header may have, lower case, IPv6 in brackets
    token: str | None = None
    cors_origins: tuple[str, ...] = ()

    @property
    def cookie(self) -> str:
        return f"discodvt-{self.port}"  # cookies do not know ports

    def check(self, method: str, path: str, query: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Raise the `HttpError` of a request that is not answered."""
        if len(headers) > MOST_HEADERS or sum(len(name) + len(value) for name, value in headers) > MOST_HEADER_BYTES:
            raise HttpError(431, f"headers: at most {MOST_HEADERS}, and {MOST_HEADER_BYTES} bytes")
        host = self._check_host(_values(headers, b"host"))
        if len(path.encode()) + len(query) > MOST_PATH_BYTES:
            raise HttpError(414, f"path and query: at most {MOST_PATH_BYTES} bytes")
        needs_token = self.token is not None and path != HEALTH and not self.is_preflight(method, headers)
        if needs_token and not self.knows_token(query, headers):
            raise HttpError(
                401,
                "no token, or a wrong one; open the address that was printed",
                headers={"www-authenticate": "Bearer"},
            )
        if method not in READS:
            self._check_sender(host, headers)
            types = _values(headers, b"content-type")
            if (types or method != "DELETE") and not (len(types) == 1 and _JSON.fullmatch(types[0].strip())):
                raise HttpError(415, "content-type: expected application/json")

    def is_preflight(self, method: str, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        """Whether a browser asks on behalf of an allowed origin what it may send; it sends no token with that."""
        return method == "OPTIONS" and self.allowed_origin(headers) is not None

    def allowed_origin(self, headers: Sequence[tuple[bytes, bytes]]) -> str | None:
        """The origin of a request, where it is one of `cors_origins`."""
        origins = _values(headers, b"origin")
        return origins[0] if len(origins) == 1 and origins[0].lower() in self.cors_origins else None

    def knows_token(self, query: bytes, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        """Whether the token was sent: as a bearer, in the cookie, or in the address."""
        if self.token is None:
            return True
        bearers = (value[7:] for value in _values(headers, b"authorization") if value[:7].lower() == "bearer ")
        sent = [*bearers, *self._cookies(headers), *tokens_in(query)]
        return any(secrets.compare_digest(each.encode(), self.token.encode()) for each in sent)

    def _cookies(self, headers: Sequence[tuple[bytes, bytes]]) -> Iterable[str]:
        for header in _values(headers, b"cookie"):
            for pair in header.split(";"):
                name, _, value = pair.strip().partition("=")
                if name == self.cookie:
                    yield value

    def _check_host(self, hosts: Sequence[str]) -> str:
        found = _HOST.fullmatch(hosts[0].lower()) if len(hosts) == 1 else None
        if found is None or found[1] not in self.hosts:
            raise HttpError(421, "host: not a name of this server; allow it with --allow-host")
        return found[0]

    def _check_sender(self, host: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
        if self.allowed_origin(headers) is not None:
            return
        origins = [origin.lower() for origin in _values(headers, b"origin")]
        sites = _values(headers, b"sec-fetch-site")
        ours = (f"http://{host}", f"https://{host}")
        if any(origin not in ours for origin in origins) or any(site not in ("same-origin", "none") for site in sites):
            raise HttpError(403, "origin: a page of another site may not write here")


def make_access(
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    allow_hosts: Sequence[str] = (),
    cors_origins: Sequence[str] = (),
    token: str | None = None,
) -> Access:
    """With `token`, if one is given; anywhere but on loopback one is made else."""
    for name in allow_hosts:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]", name):
            raise BadRequest(f"`allow_host` {name}: expected a name without scheme and port", "allow_host")
    for origin in cors_origins:
        if not _ORIGIN.fullmatch(origin.lower()):
            raise BadRequest(f"`cors_origin` {origin}: expected one origin, as https://example.org", "cors_origin")
    own = f"[{host}]" if ":" in host else host
    names = [*LOOPBACK, *allow_hosts, *([] if _is_wildcard(host) else [own])]
    return Access(
        host=host,
        port=port,
        hosts=tuple(dict.fromkeys(name.lower() for name in names)),
        token=token or (None if is_loopback(host) else new_token()),
        cors_origins=tuple(origin.lower() for origin in cors_origins),
    )


def new_token() -> str:
    return secrets.token_urlsafe(24)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def tokens_in(query: bytes) -> list[str]:
    """The tokens that an address has in its query."""
    return parse_qs(query.decode("latin-1"), errors="replace").get("token", [])


def _is_wildcard(host: str) -> bool:
    return host in ("", "0.0.0.0", "::")


def _values(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]
