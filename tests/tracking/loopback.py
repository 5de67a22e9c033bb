"""A small W&B server on 127.0.0.1: what scalars, resuming and ``wandb sync`` need, and ways to fail.

``runs`` holds what arrived: by run id, ``history`` (line number to line), ``summary``, ``config``, the names that the
run was given, ``exit`` and ``chunks`` (offset and length of every upload). ``artifacts``: by name, the ``type``, the
``state`` and the ``files`` (path to bytes) of the last version.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

KEY = "0123456789abcdef" * 2 + "01234567"  # the form of an API key; names nobody


class Loopback:
    """Serves while its ``with`` block lasts. ``status`` is the answer to everything from then on (200: real answers),
    ``delay`` the seconds before each, ``requests`` how many there were; ``refused`` the answer to what concerns one run
    (at its begin, RunResumeStatus or UpsertBucket, or to its file_stream). ``stop`` and ``start`` take it off the net
    and back, on the same port.
    """

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self.artifacts: dict[str, dict[str, Any]] = {}
        self.operations: list[str] = []
        self.status, self.delay = 200, 0.0
        self.requests = 0
        self.refused: dict[tuple[str, str], int] = {}  # by operation and run
        self.refuse_after: int | None = None  # so many requests, and then 401
        self._port = 0
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        handler = type("Handler", (_Handler,), {"loopback": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), handler)
        self._server.daemon_threads = True
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def rounds(self, run_id: str) -> list[int]:
        """The rounds that arrived, line by line."""
        lines = self.runs[run_id]["history"]
        return [json.loads(lines[number])["round"] for number in sorted(lines)]

    def graphql(self, operation: str, variables: dict[str, Any]) -> dict[str, Any]:
        name, project = variables.get("name", ""), variables.get("project") or "p"
        if operation == "UpsertBucket":
            run = self.run(name)
            for field in ("config", "displayName", "groupName", "jobType", "tags", "commit"):
                if variables.get(field):
                    run[field] = variables[field]
            new = not run["upserts"]
            run["upserts"] += 1
            return {"upsertBucket": {"bucket": _bucket(name, project, run), "inserted": new}}
        if operation == "RunResumeStatus":
            bucket = _bucket(name, project, self.runs[name]) if name in self.runs else None
            return {"model": {"id": "p", "name": project, "entity": {"id": "e", "name": "fake"}, "bucket": bucket}}
        if operation == "CreateRunFiles":
            files = [{"name": file, "uploadUrl": f"{self.url}/up/{file}"} for file in variables.get("files", [])]
            return {"createRunFiles": {"runID": "x", "uploadHeaders": [], "files": files}}
        if operation == "Viewer":
            who = {"id": "u", "entity": "fake", "username": "fake", "email": "f@example.invalid", "flags": "{}"}
            return {"viewer": {**who, "teams": {"edges": []}}}
        if "Artifact" in operation:
            return self._artifact(operation, variables.get("input") or variables)
        if operation == "ClientIDMapping":
            return {"clientIDMapping": {"serverID": "x"}}
        if operation == "ServerFeaturesQuery":
            return {"serverInfo": {"features": []}}
        return {}

    def _artifact(self, operation: str, given: dict[str, Any]) -> dict[str, Any]:
        """An artifact's id is its name."""
        if operation == "ArtifactType":
            return {"project": {"artifact": None}}
        if operation == "CreateArtifact":
            name = given["artifactCollectionName"]
            self.artifacts[name] = {"type": given["artifactTypeName"], "state": "PENDING", "files": {}}
            return {"createArtifact": {"artifact": {"id": name, "state": "PENDING", "artifactSequence": {"id": "q"}}}}
        if operation in ("CreateArtifactManifest", "UpdateArtifactManifest"):
            file = {"id": "f", "uploadUrl": f"{self.url}/manifest", "uploadHeaders": []}
            manifest = {"artifactManifest": {"id": "m", "file": file}}
            return {operation[0].lower() + operation[1:]: manifest}
        if operation == "CreateArtifactFiles":
            nodes = [
                {
                    "name": file["name"], "displayName": file["name"], "storagePath": "s", "uploadHeaders": [],
                    "uploadUrl": f"{self.url}/artifact/{file['artifactID']}/{file['name']}",
                    "uploadMultipartUrls": None, "artifact": {"id": file["artifactID"]},
                }
                for file in given["artifactFiles"]
            ]  # fmt: skip
            return {"createArtifactFiles": {"files": {"edges": [{"node": node} for node in nodes]}}}
        artifact = self.artifacts[name := given.get("artifactID") or given["id"]]
        if operation == "CommitArtifact":
            artifact["state"] = "COMMITTED"
            return {"commitArtifact": {"artifact": {"id": name, "digest": "0"}}}
        project = {"id": "p", "internalId": "p", "name": "p", "entity": {"name": "fake"}}
        shown = {
            "id": name, "artifactSequence": {"__typename": "ArtifactSequence", "name": name, "project": project},
            "versionIndex": 0, "artifactType": {"name": artifact["type"]}, "description": None, "metadata": None,
            "ttlDurationSeconds": 0, "ttlIsInherited": True, "tags": [], "historyStep": None,
            "state": artifact["state"], "size": 1, "digest": "0", "commitHash": None, "aliases": [],
            "fileCount": len(artifact["files"]), "createdAt": "2026-01-01", "updatedAt": None,
        }  # fmt: skip
        return {"artifact": shown}

    def stream(self, run_id: str, upload: dict[str, Any]) -> None:
        run, files = self.run(run_id), upload.get("files") or {}
        if history := files.get("wandb-history.jsonl"):
            run["chunks"].append((history["offset"], len(history["content"])))
            run["history"] |= dict(enumerate(history["content"], history["offset"]))
        if summary := files.get("wandb-summary.json"):
            run["summary"] = json.loads(summary["content"][-1])
        if "exitcode" in upload:
            run["exit"] = upload["exitcode"]

    def run(self, run_id: str) -> dict[str, Any]:
        return self.runs.setdefault(run_id, {"history": {}, "summary": {}, "upserts": 0, "chunks": []})


def _bucket(name: str, project: str, run: dict[str, Any]) -> dict[str, Any]:
    tail = [run["history"][number] for number in sorted(run["history"])][-1:]
    return {
        "id": "x", "name": name, "displayName": run.get("displayName") or name, "description": "", "notes": None,
        "config": run.get("config") or "{}", "sweepName": "", "tags": run.get("tags", []),
        "summaryMetrics": json.dumps(run["summary"]), "historyLineCount": len(run["history"]), "logLineCount": 0,
        "eventsLineCount": 0, "historyTail": json.dumps(tail), "eventsTail": "[]", "wandbConfig": '{"t":1}',
        "project": {"id": "p", "name": project, "entity": {"id": "e", "name": "fake"}},
    }  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    loopback: Loopback

    def handle(self) -> None:
        """Clients that go away in the middle are part of the tests."""
        with contextlib.suppress(ConnectionError):
            super().handle()

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""

    def do_GET(self) -> None:
        self._answer({})

    def do_PUT(self) -> None:
        body = self._body()
        if found := re.match(r"/artifact/([^/]+)/(.+)", self.path):
            self.loopback.artifacts[found.group(1)]["files"][found.group(2)] = body
        self._answer({})

    def do_POST(self) -> None:
        body = self._body()
        if self.loopback.status != 200:
            self._answer({"errors": [{"message": "refused"}], "error": "refused"})
        elif self.path.startswith("/graphql"):
            request = json.loads(body)
            found = re.search(r"(?:query|mutation)\s+(\w+)", request["query"])
            operation = found.group(1) if found else ""
            self.loopback.operations.append(operation)
            variables = request.get("variables") or {}
            if status := self.loopback.refused.get((operation, variables.get("name", ""))):
                self._answer({"errors": [{"message": f"no: {status}"}]}, status)
            else:
                self._answer({"data": self.loopback.graphql(operation, variables)})
        else:
            found = re.match(r"/files/[^/]+/[^/]+/([^/]+)/file_stream", self.path)
            status = self.loopback.refused.get(("file_stream", found.group(1) if found else ""), 200)
            if found and status == 200:
                self.loopback.stream(found.group(1), json.loads(body))
            self._answer({"exitcode": None, "limits": {}}, status)

    def _body(self) -> bytes:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

    def _answer(self, answer: dict[str, Any], status: int = 200) -> None:
        self.loopback.requests += 1
        if self.loopback.requests == self.loopback.refuse_after:
            self.loopback.status = 401
        time.sleep(self.loopback.delay)
        data = json.dumps(answer).encode()
        self.send_response(self.loopback.status if self.loopback.status != 200 else status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
