"""A headless Chromium over its debugging pipe, with Python's own library alone."""
import json
import os
import shutil
import subprocess
import time

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def find_browser():
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


class Browser:
    """One page. `troubles` are what it complained of, `requests` what it asked for beside itself."""

    def __init__(self, program, folder):
        to_browser, from_us = os.pipe()
        from_browser, to_us = os.pipe()

        def hand_over():  # the browser reads descriptor 3 and writes 4
            reading, writing = os.dup(to_browser), os.dup(to_us)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--remote-debugging-pipe", "--user-data-dir=" + os.path.join(folder, "profile"), "about:blank"],
            preexec_fn=hand_over, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(to_us)
        self.write, self.read, self.rest, self.number = from_us, from_browser, b"", 0
        self.session, self.troubles, self.requests, self.loaded = None, [], [], False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")

    def close(self):
        self.process.kill()
        self.process.wait()

    def message(self):
        while b"\0" not in self.rest:
            part = os.read(self.read, 1 << 20)
            if not part:
                raise RuntimeError("the browser ended")
            self.rest += part
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def note(self, event):
        what, said = event.get("method"), event.get("params", {})
        if what == "Page.loadEventFired":
            self.loaded = True
        elif what == "Runtime.exceptionThrown":
            self.troubles.append("exception: " + json.dumps(said["exceptionDetails"])[:600])
        elif what == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.troubles.append("console: " + json.dumps(said["args"])[:600])
        elif what == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.troubles.append("log: " + said["entry"]["text"])
        elif what == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])

    def call(self, method, **parameters):
        self.number += 1
        asked = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            asked["sessionId"] = self.session
        data = json.dumps(asked).encode() + b"\0"
        while data:
            data = data[os.write(self.write, data):]
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            self.note(message)

    def open(self, path, width=1280, scheme="light", scripts=True, medium="screen"):
        self.troubles, self.requests, self.loaded = [], [], False
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", media=medium, features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        end = time.monotonic() + 60
        while not self.loaded and time.monotonic() < end:
            self.note(self.message())

    def run(self, script):
        result = self.call("Runtime.evaluate", expression=f"(() => {{ {script} }})()", returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:800])
        return result["result"].get("value")

    def point_at(self, selector):
        at = self.run(f"const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center', inline: 'center'}});"
                      "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2];")
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=at[0], y=at[1])
        return at

    def click(self, selector):
        x, y = self.point_at(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, path):
        import base64
        height = self.run("return document.documentElement.scrollHeight")
        width = self.run("return innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, 12000), "scale": 1}
        data = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def print(self, path):
        import base64
        data = self.call("Page.printToPDF", printBackground=False, paperWidth=8.27, paperHeight=11.69)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
