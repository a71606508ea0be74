"""A real browser for tests of pages, told what to do as WebDriver (W3C) says."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
PHONE, DESKTOP = (390, 844), (1280, 900)

needs_browser = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="NO BROWSER: this page is untested here; install chromium and chromium-driver",
)

OVERLAPS = """
    const found = [];
    for (const svg of document.querySelectorAll('.paper svg')) {
      const paper = svg.closest('.paper').getBoundingClientRect();
      const texts = [...svg.querySelectorAll('text')].filter(one => one.textContent.trim()
        && getComputedStyle(one).opacity !== '0');
      const boxes = texts.map(one => [one.textContent, one.getBoundingClientRect()]);
      for (const [text, box] of boxes)
        if (box.left < paper.left - 1 || box.right > paper.right + 1) found.push(text);
      boxes.forEach(([text, box], index) => boxes.slice(index + 1).forEach(([other, next]) => {
        const across = Math.min(box.right, next.right) - Math.max(box.left, next.left);
        const down = Math.min(box.bottom, next.bottom) - Math.max(box.top, next.top);
        if (across > 2 && down > 4) found.push(text + ' overlaps ' + other);
      }));
    }
    return found;
"""
"""What of a page's charts sticks out of its paper or overlaps."""


@dataclass(frozen=True)
class Browser:
    """A headless browser, told what to do as WebDriver (W3C) says."""

    address: str

    def ask(self, what: str, content: object = None, method: str | None = None) -> object:
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"{self.address}/{what}", data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{what}: {error.read().decode()[:400]}") from error

    def run(self, script: str, *arguments: object) -> object:
        return self.ask("execute/sync", {"script": script, "args": list(arguments)})

    def open(self, path: Path, size: tuple[int, int] = DESKTOP) -> None:
        self.ask("window/rect", {"width": size[0], "height": size[1]})
        self.ask("url", {"url": path.as_uri()})

    def find(self, selector: str) -> str:
        found = self.ask("element", {"using": "css selector", "value": selector})
        assert isinstance(found, dict)
        return next(iter(found.values()))

    def click(self, selector: str) -> None:
        self.ask(f"element/{self.find(selector)}/click", {})

    def type(self, selector: str, text: str) -> None:
        element = self.find(selector)
        self.ask(f"element/{element}/clear", {})
        self.ask(f"element/{element}/value", {"text": text})

    def complaints(self) -> list[str]:
        """What the browser wrote to its console: errors, and what the page's policy refused."""
        logged = self.ask("se/log", {"type": "browser"})
        assert isinstance(logged, list)
        return [entry["message"] for entry in logged]


@contextlib.contextmanager
def opened_browser(profile: Path) -> Iterator[Browser]:
    """A browser with an empty profile, which ends with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    driver = subprocess.Popen([str(DRIVER), f"--port={port}"], stdout=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        opened = Browser(address=f"{address}/session/{_session(address, profile)}")
        yield opened
        opened.ask("window", method="DELETE")  # the last window's end is the browser's
    finally:
        driver.terminate()
        driver.wait(30)


def _session(address: str, profile: Path) -> str:
    options = [
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        "--force-prefers-reduced-motion",
        f"--user-data-dir={profile}",
    ]
    wanted = {
        "goog:chromeOptions": {"args": options, "binary": CHROMIUM},
        "goog:loggingPrefs": {"browser": "ALL"},
    }
    for _ in range(100):
        try:
            started = Browser(address=address).ask(
                "session", {"capabilities": {"alwaysMatch": wanted}}
            )
        except urllib.error.URLError:
            time.sleep(0.1)
        else:
            assert isinstance(started, dict)
            return started["sessionId"]
    raise AssertionError("the driver did not start")
