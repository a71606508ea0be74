"""What a bare machine says to AWS: the signature that AWS's own library would make, and no more."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import boto3  # noqa: TID251 - looks at what arrived
import pytest

from support.aws_emulator.server import Emulator
from support.machines import metadata

SCRIPTS = Path(__file__).resolve().parents[2] / "infra" / "terraform" / "scripts"
CONTENT = b"x" * 100_000
KEYS = {"AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "secret", "Token": "token"}
FACTS = {
    "instance-id": "i-1",
    "instance-type": "r6i.large",
    "ami-id": "ami-1",
    "placement/availability-zone": "us-east-1a",
    "iam/security-credentials/": "role",
    "iam/security-credentials/role": json.dumps(KEYS),
}


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ModuleType]:
    """The program, on a machine with a metadata service of its own."""
    import socket

    spec = importlib.util.spec_from_file_location("node", SCRIPTS / "node.py")
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    listening = socket.create_server(("127.0.0.1", 0))
    monkeypatch.setattr(
        program, "METADATA", f"http://127.0.0.1:{listening.getsockname()[1]}/latest"
    )
    monkeypatch.setattr(program, "LOG", tmp_path / "start.log")
    monkeypatch.setenv("BENCHORCH_REGION", "us-east-1")
    monkeypatch.setenv("BENCHORCH_BUCKET", "stack")
    end = metadata.serve(listening, FACTS.get)
    yield program
    end()


@pytest.fixture
def aws(node: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    pytest.importorskip("moto", reason="moto stands in for AWS")
    with Emulator({}).running() as emulator:
        for name, value in emulator.environment().items():
            monkeypatch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket="stack")
        yield emulator
        boto3.resource("s3").Bucket("stack").objects.delete()
        boto3.client("s3").delete_bucket(Bucket="stack")


@pytest.mark.parametrize(
    ("service", "method", "key", "query", "body"),
    [
        ("s3", "GET", "packages/cpu 1/a+b.whl", None, None),
        ("s3", "GET", "", {"list-type": "2", "prefix": "packages/x y/"}, None),
        ("s3", "PUT", "starts/i-1.json", None, b"{}"),
        ("ssm", "POST", "", None, b'{"Name": "/a/b"}'),
        ("autoscaling", "POST", "", None, b"Action=SetDesiredCapacity"),
    ],
)
def test_requests_are_signed_as_botocore_signs_them(node, service, method, key, query, body):
    from botocore.auth import S3SigV4Auth, SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    asked = node.signed(service, method, node.address(service, key), query, body, {}, None)
    sent = dict(asked.header_items())
    moment = sent["X-amz-date"]
    same = AWSRequest(method=method, url=asked.full_url, data=body or b"")
    same.context["timestamp"] = moment
    same.headers["X-Amz-Content-Sha256"] = sent["X-amz-content-sha256"]
    signer = S3SigV4Auth if service == "s3" else SigV4Auth
    auth = signer(
        Credentials(KEYS["AccessKeyId"], KEYS["SecretAccessKey"], KEYS["Token"]),
        service,
        "us-east-1",
    )
    same.headers["X-Amz-Date"] = moment
    same.headers["Content-Type"] = sent["Content-type"]
    same.headers["X-Amz-Security-Token"] = KEYS["Token"]
    canonical = auth.canonical_request(same)
    wanted = auth.signature(auth.string_to_sign(same, canonical), same)
    assert sent["Authorization"].endswith(f"Signature={wanted}")


def test_packages_that_one_machine_keeps_another_gets_whole(node, aws, tmp_path):
    made = tmp_path / "made"
    made.mkdir()
    for name in ("a-1-py3-none-any.whl", "b+cpu-2-py3-none-any.whl"):
        (made / name).write_text(name)
    (made / "source.tar.gz").write_text("not for nodes")
    assert node.main(["keep", "packages/cpu-1", str(made)]) == 0
    got = tmp_path / "got"
    assert node.main(["packages", "packages/cpu-1", str(got), "60"]) == 0
    assert {path.name for path in got.iterdir()} == {
        "SHA256SUMS",
        "a-1-py3-none-any.whl",
        "b+cpu-2-py3-none-any.whl",
    }


def test_a_package_that_was_changed_in_the_bucket_is_refused(node, aws, tmp_path, capsys):
    made = tmp_path / "made"
    made.mkdir()
    (made / "a-1-py3-none-any.whl").write_text("a")
    node.main(["keep", "packages/cpu-1", str(made)])
    boto3.client("s3").put_object(
        Bucket="stack", Key="packages/cpu-1/a-1-py3-none-any.whl", Body=b"another"
    )
    assert node.main(["packages", "packages/cpu-1", str(tmp_path / "got"), "60"]) == 1
    assert "a-1-py3-none-any.whl is not what the list says" in capsys.readouterr().err


def test_a_node_waits_until_the_head_has_made_the_packages(node, aws, tmp_path, monkeypatch):
    monkeypatch.setattr(node, "LOOK_S", 0.05)
    made = tmp_path / "made"
    made.mkdir()
    (made / "a-1-py3-none-any.whl").write_text("a")
    later = threading.Timer(0.3, node.keep, ["packages/cpu-1", str(made)])
    later.start()
    assert node.main(["packages", "packages/cpu-1", str(tmp_path / "got"), "60"]) == 0
    later.join()


def test_a_node_for_which_nobody_makes_packages_says_so(node, aws, tmp_path, capsys):
    assert node.main(["packages", "packages/cpu-1", str(tmp_path / "got"), "0"]) == 1
    assert "the head has not put them there" in capsys.readouterr().err


def test_a_start_that_failed_is_told_with_the_end_of_its_log(node, aws, monkeypatch):
    monkeypatch.setenv("BENCHORCH_ROLE", "worker")
    node.LOG.write_text("\n".join(f"line {number}" for number in range(100)))
    assert node.main(["report", "failed", "apt", "100"]) == 0
    told = json.load(boto3.client("s3").get_object(Bucket="stack", Key="starts/i-1.json")["Body"])
    assert (told["outcome"], told["step"], told["code"]) == ("failed", "apt", 100)
    assert (told["type"], told["image"], told["role"]) == ("r6i.large", "ami-1", "worker")
    assert told["log"][-1] == "line 99"
    assert len(told["log"]) == node.LINES


def test_what_aws_refuses_is_an_error_and_not_a_file(node, aws, tmp_path, capsys):
    assert node.main(["fetch", "packages/none", str(tmp_path / "file")]) == 1
    assert "404" in capsys.readouterr().err
    assert not (tmp_path / "file").exists()


@pytest.fixture
def broken_bodies(node, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A bucket whose answers end after so many bytes, one after the other; then they are whole."""
    lengths: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT[: lengths.pop(0) if lengths else None])

        def log_message(self, *_: object) -> None:
            """Nothing: tests print enough."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(node.time, "sleep", lambda _: None)
    yield lengths
    server.shutdown()
    server.server_close()


def test_a_file_whose_connection_ends_early_is_fetched_again(node, broken_bodies, tmp_path):
    broken_bodies += [1000, 0]
    assert node.main(["fetch", "config/x/cluster.yaml", str(tmp_path / "file")]) == 0
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_file_whose_connection_always_ends_early_is_an_error_and_not_a_file(
    node, broken_bodies, tmp_path, capsys
):
    broken_bodies += [1000] * node.TRIES
    assert node.main(["fetch", "config/x/cluster.yaml", str(tmp_path / "file")]) == 1
    assert "config/x/cluster.yaml ended after 1000 of 100000 bytes" in capsys.readouterr().err
    assert not (tmp_path / "file").exists()


def test_a_parameter_is_written_and_read(node, aws, capsys):
    assert node.main(["announce", "/stack/head-address", "10.60.0.7"]) == 0
    assert node.main(["parameter", "/stack/head-address"]) == 0
    assert capsys.readouterr().out == "10.60.0.7"
