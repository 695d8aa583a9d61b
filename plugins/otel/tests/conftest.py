"""A collector on the loopback interface that keeps what it is sent."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Collector(ThreadingHTTPServer):
    """Takes traces by OTLP over HTTP."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests = []
        self.headers = []
        self.status = 200
        self.hangs = threading.Event()
        self.hangs.set()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_address[1]}/v1/traces"

    def spans(self):
        """Return the spans by name, in the order in which they came."""
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as otlp

        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.hangs.wait(20)
        self.server.headers.append(dict(self.headers))
        if self.server.status == 200:
            self.server.requests.append(otlp.ExportTraceServiceRequest.FromString(data))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words):
        """Say nothing."""


@pytest.fixture
def collector():
    server = Collector()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.hangs.set()
    server.shutdown()
    server.server_close()
    thread.join()
