"""A tracker's password is used, and written nowhere."""

import base64
import http.server
import threading

import pytest

FAST = ("stopping=fixed", "stopping.processes=1", "stopping.calls=5", "protocol.pairing=none")
FAST += ("profiler=none", "stopping.window_s=0.05", "protocol.canary_tolerance_ratio=null")
FAST += ("executor=inline",)
PASSWORD = "hunter22"
CREDENTIALS = base64.b64encode(f"ann:{PASSWORD}".encode()).decode()


@pytest.fixture
def tracker():
    """A server that refuses everything and notes who asked; a tracker that is away, to a run."""
    seen = []

    class Refusing(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.headers.get("Authorization"))
            self.send_error(401)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server.server_address[1], seen
    server.shutdown()
    thread.join()


def test_a_run_directory_holds_no_password_and_a_resumed_run_takes_it_from_the_environment(
    place, tracker, monkeypatch
):
    port, seen = tracker
    whole = f"http://ann:{PASSWORD}@127.0.0.1:{port}"
    words = ("model=mlp", "conversion=eager", *FAST, f"recorder.uri={whole}")
    done = place.run(*words, "hydra.run.dir=out")
    assert f"Basic {CREDENTIALS}" in seen
    files = [path for path in (place.path / "out").rglob("*") if path.is_file()]
    assert any(path.name == "overrides.yaml" for path in files)
    assert [path for path in files if PASSWORD in path.read_text(errors="replace")] == []
    assert PASSWORD not in done.stdout + done.stderr

    seen.clear()
    monkeypatch.setenv("BENCHORCH_TRACKING_URI", whole)
    place.run("resume=out")
    assert set(seen) == {f"Basic {CREDENTIALS}"}
