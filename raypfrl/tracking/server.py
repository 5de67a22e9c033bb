"""W&B's server: who it is, whether it answers, and no wait without an end."""

from __future__ import annotations

import base64
import contextlib
import json
import netrc
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn
from urllib.parse import urlsplit

CHECK = 5.0  # seconds


class Trouble(Exception):
    """W&B raised, did not come back in time, or its server does not take what it is given."""


def check_server(seconds: float = CHECK) -> None:
    """Ask the server who we are, for at most ``seconds``. Raises Trouble."""
    if ask("query Viewer { viewer { id } }", {}, seconds).get("viewer") is None:
        raise Trouble(f"{server_url()} does not know the key")


def lines_of(entity: str, project: str, run: str, seconds: float) -> int | None:
    """How many rows the server has of a run; None where it does not say. Raises Trouble."""
    query = """query RunResumeStatus($project: String, $entity: String, $name: String!) {
        model(name: $project, entityName: $entity) { bucket(name: $name, missingOk: true) { historyLineCount } } }"""
    found = ask(query, {"project": project, "entity": entity, "name": run}, seconds).get("model")
    return ((found or {}).get("bucket") or {}).get("historyLineCount")


def ask(query: str, variables: Mapping[str, str], seconds: float) -> dict[str, Any]:
    """The server's answer to a GraphQL query, within ``seconds``. Raises Trouble."""
    url, key = server_url(), api_key()
    if key is None:
        raise Trouble(f"there is no key for {url} (`wandb login`, or WANDB_API_KEY)")
    login = f"Basic {base64.b64encode(f'api:{key}'.encode()).decode()}"
    try:
        headers = {"Content-Type": "application/json", "Authorization": login}
        asked = json.dumps({"query": query, "variables": dict(variables)}).encode()
        request = urllib.request.Request(f"{url}/graphql", asked, headers)
        with deadline(seconds, "its answer"), urllib.request.urlopen(request, timeout=seconds) as answer:
            data = json.load(answer)["data"]
        if not isinstance(data, dict):
            raise ValueError(f"not what W&B answers: {str(data)[:80]}")
    except urllib.error.HTTPError as error:
        raise Trouble(f"{url} answers {error.code} {error.reason}") from None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise Trouble(f"{url} does not answer: {getattr(error, 'reason', error)}") from None
    return data


def server_url() -> str:
    """The server that W&B's variables and settings name. Raises Trouble where W&B does not take them."""
    if url := os.environ.get("WANDB_BASE_URL"):
        return url.rstrip("/")
    import wandb

    try:
        return str(wandb.setup().settings.base_url).rstrip("/")
    except Exception as error:
        raise Trouble(f"its settings (WANDB_...) are not what it takes: {' '.join(str(error).split())}") from None


def api_key() -> str | None:
    """The key for the server, from where W&B looks for it."""
    if key := os.environ.get("WANDB_API_KEY"):
        return key
    for path in (os.environ.get("NETRC"), "~/.netrc", "~/_netrc"):
        with contextlib.suppress(OSError, netrc.NetrcParseError):
            known = netrc.netrc(os.path.expanduser(path)) if path else None
            if known and (entry := known.authenticators(urlsplit(server_url()).netloc)):
                return entry[2]
    return None


@contextlib.contextmanager
def deadline(seconds: float, what: str) -> Iterator[None]:
    """Raise TimeoutError inside when it takes longer; in the main thread only."""

    def expired(*_: object) -> NoReturn:
        raise TimeoutError(f"{what} took longer than {seconds:.2g} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
