"""A real browser for tests of pages, told what to do as WebDriver (W3C) says."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
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
PHONE, DESKTOP, WIDE = (390, 844), (1280, 900), (1440, 900)

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

UNREADABLE = """
    const found = [], boxes = [];
    const scrolls = node => {
      for (let up = node; up && up !== document.body; up = up.parentElement)
        if (/(auto|scroll|hidden)/.test(getComputedStyle(up).overflowX)) return true;
      return false;
    };
    const rgba = text => {
      const parts = text.match(/[\\d.]+/g).map(Number);
      return parts.length === 4 ? parts : [...parts, 1];
    };
    const paper = node => {
      for (let up = node; up; up = up.parentElement) {
        const own = rgba(getComputedStyle(up).backgroundColor);
        if (own[3] > 0.5) return own;
      }
      return matchMedia('(prefers-color-scheme: dark)').matches ? [18, 18, 18] : [255, 255, 255];
    };
    const light = color => {
      const [r, g, b] = color.map(one => one / 255).map(one =>
        one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (one, other) => {
      const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
      return (high + 0.05) / (low + 0.05);
    };
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode, parent = node.parentElement;
      const text = node.textContent.trim().slice(0, 60), style = getComputedStyle(parent);
      if (!text || parent.closest('script, style, noscript') || style.visibility === 'hidden')
        continue;
      const color = parent.closest('svg') ? style.fill : style.color;
      const range = document.createRange();
      range.selectNodeContents(node);
      const own = [...range.getClientRects()].filter(box => box.width > 1 && box.height > 1);
      if (own.length && color !== 'none' && style.opacity !== '0') {
        const ratio = contrast(rgba(color), paper(parent));
        if (ratio < 4.5) found.push(`contrast ${ratio.toFixed(1)}: ${text}`);
      }
      if (parent.closest('svg')) continue;
      for (const box of own) {
        if (!scrolls(parent) && (box.left < -1 || box.right > innerWidth + 1))
          found.push(`outside: ${text}`);
        if (!parent.closest('.scroll, .rows, div[style*=overflow]')) boxes.push([text, box]);
      }
    }
    boxes.forEach(([text, box], index) => boxes.slice(index + 1).forEach(([other, next]) => {
      const across = Math.min(box.right, next.right) - Math.max(box.left, next.left);
      const down = Math.min(box.bottom, next.bottom) - Math.max(box.top, next.top);
      if (across > 2 && down > 4) found.push(`${text} overlaps ${other}`);
    }));
    return found;
"""
"""Which words of a page lie outside its window, overlap, or are too like their background.

The least contrast is 4.5, as the guidelines for accessibility (WCAG 2, level AA) ask for.
"""


@dataclass(frozen=True)
class Browser:
    """A headless browser, told what to do as WebDriver (W3C) says."""

    address: str

    def ask(self, what: str, content: object = None, method: str | None = None) -> object:
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"{self.address}/{what}", data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{what}: {error.read().decode()[:400]}") from error

    def run(self, script: str, *arguments: object) -> object:
        return self.ask("execute/sync", {"script": script, "args": list(arguments)})

    def open(self, path: Path, size: tuple[int, int] = DESKTOP) -> None:
        self.ask("window/rect", {"width": size[0], "height": size[1]})
        self.ask("url", {"url": path.as_uri()})

    def dress(self, theme: str) -> None:
        """Prefer ``light`` or ``dark`` pages from now on."""
        scheme = {"name": "prefers-color-scheme", "value": theme}
        command = {"cmd": "Emulation.setEmulatedMedia", "params": {"features": [scheme]}}
        self.ask("goog/cdp/execute", command)

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
    driver = subprocess.Popen([str(DRIVER), "--port=0"], stdout=subprocess.PIPE, text=True)
    try:
        address = f"http://127.0.0.1:{_port(driver)}"
        opened = Browser(address=f"{address}/session/{_session(address, profile)}")
        yield opened
        opened.ask("window", method="DELETE")  # the last window's end is the browser's
    finally:
        driver.terminate()
        driver.wait(30)


def _port(driver: subprocess.Popen[str]) -> int:
    """The free port that the driver has chosen."""
    assert driver.stdout is not None
    for line in driver.stdout:
        if found := re.search(r"started successfully on port (\d+)", line):
            return int(found[1])
    raise AssertionError("the driver did not start")


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
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.1)
        else:
            assert isinstance(started, dict)
            return started["sessionId"]
    raise AssertionError("the driver did not start")
