"""A headless Chromium that a test drives through Chromium's DevTools protocol, and all that a page complains of."""

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.request import urlopen

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_ALONE = (
    "--headless=new",
    "--no-sandbox",  # which a container cannot give; the pages are our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-port=0",
)


def find() -> str | None:
    """Chromium's program, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One tab. `loads` are the addresses that it asked for, `errors` what went wrong or was written to the console."""

    def __init__(self, socket: Any) -> None:
        self.socket, self.ids = socket, count(1)
        self.loads: list[str] = []
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        self.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        number = next(self.ids)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv(timeout=60))
            if message.get("id") == number:
                assert "error" not in message, (method, message["error"])
                answer: dict[str, Any] = message["result"]
                return answer
            self._note(message.get("method", ""), message.get("params", {}))

    def _note(self, event: str, p: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.loads.append(p["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.errors.append(str(p["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" or (event == "Log.entryAdded" and p["entry"]["level"] != "verbose"):
            self.errors.append(json.dumps(p))

    def open(self, file: Path, width: int = 1280, height: int = 800, *, dark: bool = False) -> None:
        """Show a file in a window of so many CSS pixels, a phone's if it is narrow, until its map is drawn."""
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=file.resolve().as_uri())
        self.until("document.documentElement?.dataset.ready")
        self.settle()

    def eval(self, expression: str) -> Any:
        """What an expression gives in the page, as JSON has it."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = 60) -> None:
        """Wait until an expression holds."""
        end = time.monotonic() + seconds
        while not self.eval(f"Boolean({expression})"):
            assert time.monotonic() < end, f"never: {expression}"
            time.sleep(0.02)

    def settle(self) -> None:
        """Wait until what was asked for is on the screen."""
        self.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))")

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, key: str, text: str = "") -> None:
        code = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Home": 36}.get(key, 0)
        kind = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **kind)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)
        self.settle()

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Write what is seen as PNG; whole: all of the page, not only the window."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(answer["data"]))


@contextmanager
def browser(program: str, folder: Path) -> Iterator[Page]:
    """A tab of a Chromium that keeps its things in `folder` and can reach no other machine."""
    from websockets.sync.client import connect

    command = [program, *_ALONE, f"--user-data-dir={folder}", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with connect(_tab(folder / "DevToolsActivePort"), max_size=None) as socket:
            yield Page(socket)
    finally:
        process.terminate()
        process.wait(30)


def _tab(told: Path) -> str:
    """The address of the tab that is open; Chromium writes its port to a file when it listens."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if told.exists() and (port := told.read_text().split("\n")[0]):
            with urlopen(f"http://127.0.0.1:{port}/json/list", timeout=30) as answer:
                tabs = [tab for tab in json.load(answer) if tab["type"] == "page"]
            if tabs:
                return str(tabs[0]["webSocketDebuggerUrl"])
        time.sleep(0.05)
    raise AssertionError("Chromium does not listen")
