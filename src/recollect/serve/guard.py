"""Which requests are answered: those of a browser on this machine, and those with the token. A page of another site must not
reach the server by a name that it has pointed here, so a foreign Host header is refused."""

import hmac
import ipaddress
import socket
from typing import Any

from flask import Flask, Response, abort, redirect, request

COOKIE = "recollect-token"
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; frame-ancestors 'none'"
)


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def guard(server: Flask, host: str, token: str) -> None:
    """Refuse requests by a foreign name, and where there is a token those without it; allow nothing from elsewhere on a page."""

    def check() -> Any:
        if not _own_name(request.host, host):
            abort(403, "unknown host")
        if not token:
            return None
        given = request.args.get("token", "")
        if given and hmac.compare_digest(given.encode(), token.encode()):
            answer = redirect(request.path)
            answer.set_cookie(COOKIE, token, httponly=True, samesite="Strict")
            return answer
        if not hmac.compare_digest(request.cookies.get(COOKIE, "").encode(), token.encode()):
            abort(403, "the token is missing or wrong: open the address that `recollect serve` printed")
        return None

    def protect(answer: Response) -> Response:
        answer.headers["Content-Security-Policy"] = POLICY
        answer.headers["X-Content-Type-Options"] = "nosniff"
        answer.headers["Referrer-Policy"] = "same-origin"  # by it the page's parts know what its address has kept
        return answer

    server.before_request(check)
    server.after_request(protect)


def _own_name(asked: str, host: str) -> bool:
    """Whether a Host header names this server: by an address, which no other site can claim, or by a name of this machine."""
    name = asked.rpartition(":")[0] if asked.rpartition(":")[2].isdigit() else asked
    try:
        address = ipaddress.ip_address(name.strip("[]"))
        return not is_loopback(host) or address.is_loopback
    except ValueError:
        own = {"localhost"} if is_loopback(host) else {"localhost", host, socket.gethostname(), socket.getfqdn()}
        return name.lower() in {each.lower() for each in own}
