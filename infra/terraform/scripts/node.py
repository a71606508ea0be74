"""What a bare machine needs of AWS before anything is installed, by Python's own library alone.

    node.py metadata PATH               what the machine is, from its metadata service
    node.py fetch KEY FILE              a file of the stack's bucket
    node.py listed PREFIX               the keys that begin so
    node.py parameter NAME              a parameter's value, decrypted
    node.py announce NAME VALUE         write a parameter
    node.py packages PLACE DIRECTORY S  the packages below PLACE, each verified, once they are
                                        listed, for which it waits S seconds
    node.py keep PLACE DIRECTORY        put a directory's packages there, their list last
    node.py report OUTCOME STEP CODE    write starts/INSTANCE.json: how this machine's start went
    node.py rest GROUP                  let the group of the head be empty

The start script sets BENCHORCH_REGION and BENCHORCH_BUCKET.
"""

import concurrent.futures
import datetime
import hashlib
import hmac
import json
import os
import shutil
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ElementTree
from pathlib import Path

METADATA = "http://169.254.169.254/latest"
LIST = "SHA256SUMS"
LOG = Path("/var/log/benchorch-start.log")
LOOK_S = 5
TRIES, SLOW_S, THREADS, LINES = 6, 120, 8, 40
UNSIGNED = "UNSIGNED-PAYLOAD"


def main(words):
    """Run one command; the exit code."""
    commands = {
        "metadata": lambda path: print(metadata(path)),
        "fetch": fetch,
        "listed": lambda prefix: print("\n".join(listed(prefix))),
        "parameter": lambda name: sys.stdout.write(parameter(name)),
        "announce": announce,
        "packages": packages,
        "keep": keep,
        "report": report,
        "rest": rest,
    }
    try:
        commands[words[0]](*words[1:])
    except (OSError, LookupError, ValueError) as error:
        print(f"{' '.join(words)}: {error}", file=sys.stderr)
        return 1
    return 0


def metadata(path):
    """A fact of this machine; a session's token first, as the service demands."""
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    asked = urllib.request.Request(f"{METADATA}/api/token", method="PUT", headers=lifetime)
    with urllib.request.urlopen(asked, timeout=5) as answer:
        session = {"X-aws-ec2-metadata-token": answer.read().decode()}
    asked = urllib.request.Request(f"{METADATA}/meta-data/{path}", headers=session)
    with urllib.request.urlopen(asked, timeout=5) as answer:
        return answer.read().decode()


def fetch(key, file):
    """A file of the bucket; whole, or not there at all."""
    part = Path(f"{file}.part")
    patiently("s3", lambda: copied(key, part))
    part.rename(file)


def copied(key, part):
    """Copy a file of the bucket; OSError where the connection ends before the file does."""
    with opened("s3", "GET", key=key) as answer, part.open("wb") as output:
        shutil.copyfileobj(answer, output, 1 << 20)
    came, size = part.stat().st_size, int(answer.headers["Content-Length"])
    if came != size:
        raise OSError(f"{key} ended after {came} of {size} bytes")


def put(file, key):
    """A file into the bucket."""
    with Path(file).open("rb") as content:
        call("s3", "PUT", key=key, body=content, size=Path(file).stat().st_size).close()


def listed(prefix):
    """The keys that begin so, of which there are fewer than a thousand."""
    with call("s3", "GET", query={"list-type": "2", "prefix": prefix}) as answer:
        tree = ElementTree.parse(answer)
    return [each.text for each in tree.iter() if each.tag.rpartition("}")[2] == "Key"]


def parameter(name):
    """A parameter's value."""
    return _ssm("GetParameter", {"Name": name, "WithDecryption": True})["Parameter"]["Value"]


def announce(name, value):
    """Write a parameter, over what it held."""
    _ssm("PutParameter", {"Name": name, "Value": value, "Type": "String", "Overwrite": True})


def rest(group):
    """No head any more, and none instead of it."""
    query = {"Action": "SetDesiredCapacity", "Version": "2011-01-01", "DesiredCapacity": "0"}
    body = urllib.parse.urlencode({**query, "AutoScalingGroupName": group}).encode()
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    call("autoscaling", "POST", body=body, headers=headers).close()


def packages(place, directory, wait_s):
    """Wait for the list of packages, fetch them side by side, and verify each."""
    deadline = time.monotonic() + float(wait_s)
    while f"{place}/{LIST}" not in listed(f"{place}/{LIST}"):
        if time.monotonic() > deadline:
            raise LookupError(f"the head has not put them there within {wait_s} s: see its {LOG}")
        time.sleep(LOOK_S)
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    fetch(f"{place}/{LIST}", folder / LIST)
    lines = [line.split() for line in (folder / LIST).read_text().splitlines()]

    def one(line):
        wanted, name = line
        fetch(f"{place}/{name}", folder / Path(name).name)
        if digest(folder / Path(name).name) != wanted:
            raise ValueError(f"{place}/{name} is not what the list says")

    with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(one, lines))


def keep(place, directory):
    """Put packages into the bucket, and their list last: a list without packages never exists."""
    files = sorted(path for path in Path(directory).iterdir() if path.suffix == ".whl")
    with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(lambda path: put(path, f"{place}/{path.name}"), files))
    names = Path(directory) / LIST
    names.write_text("".join(f"{digest(path)}  {path.name}\n" for path in files))
    put(names, f"{place}/{LIST}")


def digest(path):
    """Of a file, as sha256sum says it."""
    with Path(path).open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def report(outcome, step, code):
    """How the start went and, where it failed, the end of what it said."""
    name = metadata("instance-id")
    log = LOG.read_text(errors="replace").splitlines() if LOG.exists() else []
    told = {
        "instance": name,
        "type": metadata("instance-type"),
        "image": metadata("ami-id"),
        "zone": metadata("placement/availability-zone"),
        "role": os.environ.get("BENCHORCH_ROLE", ""),
        "outcome": outcome,
        "step": step,
        "code": int(code),
        "seconds": float(Path("/proc/uptime").read_text().split()[0]),
        "at": now().isoformat(timespec="seconds"),
        "log": log[-LINES:] if outcome == "failed" else [],
    }
    body = json.dumps(told).encode()
    call("s3", "PUT", key=f"starts/{name}.json", body=body).close()


def _ssm(action, request):
    headers = {"X-Amz-Target": f"AmazonSSM.{action}", "Content-Type": "application/x-amz-json-1.1"}
    with call("ssm", "POST", body=json.dumps(request).encode(), headers=headers) as answer:
        return json.load(answer)


def call(service, method, body=None, **words):
    """AWS's answer, open; tried again while it is busy."""

    def once():
        if hasattr(body, "seek"):
            body.seek(0)
        return opened(service, method, body=body, **words)

    return patiently(service, once)


def patiently(service, once):
    """What a call returns; made again while AWS is busy, and where a connection breaks."""
    left = TRIES
    while True:
        left -= 1
        try:
            return once()
        except urllib.error.HTTPError as error:
            told = error.read(500).decode(errors="replace")
            if not left or error.code not in (429, 500, 502, 503, 504):
                raise OSError(f"{service} answers {error.code}: {told}") from error
        except OSError:
            if not left:
                raise
        time.sleep(2 ** (TRIES - 1 - left) / 2)


def opened(service, method, key="", query=None, body=None, headers=None, size=None):
    """AWS's answer to one request, open."""
    asked = signed(service, method, address(service, key), query, body, headers, size)
    return urllib.request.urlopen(asked, timeout=SLOW_S)


def address(service, key):
    """Of a service, or of a file of the bucket."""
    region, bucket = os.environ["BENCHORCH_REGION"], os.environ["BENCHORCH_BUCKET"]
    other = os.environ.get("AWS_ENDPOINT_URL")
    path = urllib.parse.quote(key, safe="/-_.~")
    if service != "s3":
        return f"{other or f'https://{service}.{region}.amazonaws.com'}/"
    return (
        f"{other}/{bucket}/{path}"
        if other
        else f"https://{bucket}.s3.{region}.amazonaws.com/{path}"
    )


def signed(service, method, url, query, body, headers, size):
    """The request with AWS's signature, version 4, by the role of this machine."""
    role = metadata("iam/security-credentials/").split()[0]
    keys = json.loads(metadata(f"iam/security-credentials/{role}"))
    words = "&".join(f"{_quoted(k)}={_quoted(v)}" for k, v in sorted((query or {}).items()))
    moment = now().strftime("%Y%m%dT%H%M%SZ")
    streamed = hasattr(body, "read")
    content = UNSIGNED if streamed else hashlib.sha256(body or b"").hexdigest()
    own = {
        "Content-Type": "application/octet-stream",  # urllib would call it a form
        **(headers or {}),
        "Host": urllib.parse.urlsplit(url).netloc,
        "X-Amz-Content-Sha256": content,
        "X-Amz-Date": moment,
        "X-Amz-Security-Token": keys["Token"],
    }
    parts = urllib.parse.urlsplit(url)
    region = os.environ["BENCHORCH_REGION"]
    own["Authorization"] = authorization(
        keys, region, service, (method, parts.path, words), own, content
    )
    if streamed:
        own["Content-Length"] = str(size)
    return urllib.request.Request(url + (f"?{words}" if words else ""), body, own, method=method)


def authorization(keys, region, service, asked, headers, content):
    """The header that proves who asks for what."""
    lower = {name.lower(): value.strip() for name, value in headers.items()}
    names = ";".join(sorted(lower))
    lines = "".join(f"{name}:{lower[name]}\n" for name in sorted(lower))
    canonical = "\n".join((*asked, lines, names, content))
    moment = lower["x-amz-date"]
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    secret = f"AWS4{keys['SecretAccessKey']}".encode()
    for part in scope.split("/"):
        secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
    told = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashed}".encode()
    proof = hmac.new(secret, told, hashlib.sha256).hexdigest()
    who = f"Credential={keys['AccessKeyId']}/{scope}"
    return f"AWS4-HMAC-SHA256 {who}, SignedHeaders={names}, Signature={proof}"


def _quoted(text):
    return urllib.parse.quote(str(text), safe="-_.~")


def now():
    """The time in UTC."""
    return datetime.datetime.now(datetime.UTC)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
