"""Starts the page: which stores, at which address, and for whom."""

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from recollect.spec import SpecError
from recollect.store.store import Store

LOOPBACK = "127.0.0.1"


def serve(
    stores: Sequence[str | Path],
    host: str = LOOPBACK,
    port: int = 8050,
    token: str = "",
    say: Callable[[str], None] = print,
) -> None:
    """Serve a page over these stores until it is stopped. A `host` other than this machine needs a `token`; port 0: any."""
    try:
        from werkzeug.serving import make_server

        from recollect.serve.guard import is_loopback
        from recollect.serve.live import Live
        from recollect.serve.page import make_app, warm
    except ImportError as error:
        raise SpecError(
            f"`recollect serve` needs the extra `serve`: pip install 'recollect[serve]' ({error})"
        ) from None
    if not is_loopback(host) and not token:
        raise SpecError(f"--host {host} can be reached from other machines: give a --token that they have to know")
    paths = [Path(store) for store in stores]
    for path in paths:
        Store(path)  # refuses what is not there or is no store
    live = Live(paths)
    # a large store takes a while, and so does opening a browser
    threading.Thread(target=warm, args=[live], daemon=True).start()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    try:
        server = make_server(host, port, make_app(live, host, token).server, threaded=True)
    except (OSError, SystemExit) as error:
        raise SpecError(f"cannot listen on {host}:{port}: {error}; choose another --port") from None
    shown = f"[{host}]" if ":" in host else host
    say(f"Open http://{shown}:{server.server_port}/{f'?token={token}' if token else ''}  (Ctrl-C ends it)")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
