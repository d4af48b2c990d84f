#!/usr/bin/env python3
"""The page of gdn serve in Chromium, where it is installed: what is written is answered as text, with its speed.

    test_page.py GDN FOLDER [--brief] [--picture FILE]   as test_run.py; FILE gets a picture of the page
"""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from server import WAIT, server
from tool import require, run_tests

SKIPPED = 77


class Browser:
    """Chromium, by the messages of its remote debugging: file descriptors 3 and 4, each message ended by a zero."""

    def __init__(self, folder):
        from_browser, to_browser = os.pipe(), os.pipe()
        here, there = os.dup(to_browser[0]), os.dup(from_browser[1])  # so that neither is 3 or 4

        def connect():
            above = os.dup2(here, 60), os.dup2(there, 61)
            os.dup2(above[0], 3)
            os.dup2(above[1], 4)
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"]
        self.process = subprocess.Popen(command, preexec_fn=connect, pass_fds=(3, 4), stderr=subprocess.DEVNULL)
        self.to, self.of, self.number, self.rest = to_browser[1], from_browser[0], 0, b""
        for descriptor in (here, there, to_browser[0], from_browser[1]):
            os.close(descriptor)
        self.session = None

    def do(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters, **({"sessionId": self.session} if self.session else {})}
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                more = os.read(self.of, 1 << 20)
                if not more:
                    raise EOFError("chromium ended")
                self.rest += more
            text, self.rest = self.rest.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise ValueError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, address):
        self.session = None
        target = self.do("Target.createTarget", url=address)["targetId"]
        self.session = self.do("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.do("Emulation.setDeviceMetricsOverride", width=800, height=560, deviceScaleFactor=1, mobile=False)
        self.until("document.readyState === 'complete'")

    def value(self, expression):
        return self.do("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def until(self, expression):
        end = time.monotonic() + WAIT
        while not self.value(expression):
            if time.monotonic() > end:
                raise TimeoutError(expression)
            time.sleep(0.05)

    def fill(self, name, text):
        self.value(f"document.getElementById('{name}').value = {json.dumps(text)}; document.getElementById('{name}').dispatchEvent(new Event('change'))")

    def end(self):
        self.session = None
        self.do("Browser.close")
        self.process.wait(WAIT)


SHOWN = "[...document.querySelectorAll('.user, .assistant')].map(n => n.querySelector('.text').textContent)"
READY = "document.getElementById('stop').disabled && document.getElementById('talk').children.length"


def kept_over_reload(browser, messages):
    """The conversation, the settings and what is not sent yet are there after a reload."""
    browser.fill("text", "not sent <b>")
    browser.do("Page.reload")
    browser.until("document.readyState === 'complete' && document.getElementById('model').textContent === '<b>small</b>'")
    require(browser.value(SHOWN) == [m["content"] for m in messages], f"the conversation after a reload: {browser.value(SHOWN)}")
    values = [browser.value(f"document.getElementById('{name}').value") for name in ("temperature", "most", "text", "key")]
    require(values == ["0", "24", "not sent <b>", "secret"], f"the inputs after a reload: {values}")
    require(not browser.value("document.images.length"), "texts are no HTML")


def pressed(browser, what, number):
    """Presses the last button of this name, or one before it."""
    browser.value(f"[...document.querySelectorAll('.act')].filter(n => n.textContent === '{what}').at({number}).click()")


def edited(browser, s, messages):
    """The last answer anew is the same at temperature 0, and another at a high one. A message that is edited ends what came after it."""
    for temperature, same in (("0", True), ("5", False)):
        browser.fill("temperature", temperature)
        pressed(browser, "Regenerate", -1)
        browser.until(f"{READY} === 4")
        shown = browser.value(SHOWN)
        require(shown[:3] == [m["content"] for m in messages[:3]] and (shown[3] == messages[3]["content"]) == same, f"again at {temperature}: {shown}, of {messages}")
    browser.fill("temperature", "0")
    pressed(browser, "Edit", 0)
    browser.value("document.querySelector('.user textarea').value = 'Who was Aaron?'")
    pressed(browser, "Send", -1)
    browser.until(f"{READY} === 2")
    wanted = s.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "Who was Aaron?"}], "temperature": 0, "max_tokens": 24}, headers={"Authorization": "Bearer secret"})[1]
    require(browser.value(SHOWN) == ["Who was Aaron?", wanted["choices"][0]["message"]["content"]], f"after an edit: {browser.value(SHOWN)}")


def page(folder):
    (folder / "keys").write_text("secret\n")
    last = "[...document.querySelectorAll('.assistant')].pop()"
    browser = Browser(folder / "browser")
    try:
        with server("--api-key-file", folder / "keys", "--alias", "<b>small</b>") as s:
            browser.open(f"http://127.0.0.1:{s.port}/")
            browser.until("document.getElementById('model').textContent.includes('key is needed')")
            browser.fill("key", "secret")
            browser.until("document.getElementById('model').textContent === '<b>small</b>'")  # text, not HTML
            browser.fill("temperature", "0")
            browser.fill("most", "24")
            browser.value("document.getElementById('settings').open = false")
            messages = []
            for text in ("Who was Moses? <img src=x onerror=\"document.title = 'bad'\">", "And who was Aaron?"):
                messages.append({"role": "user", "content": text})
                browser.fill("text", text)
                browser.value("document.getElementById('send').click()")
                browser.until(f"document.getElementById('speed').textContent.includes('tokens') && {last} && {len(messages)} === document.querySelectorAll('.user, .assistant').length - 1 && document.getElementById('stop').disabled")
                expected = s.ask("/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 24}, headers={"Authorization": "Bearer secret"})[1]
                said = expected["choices"][0]["message"]["content"]
                require(said and browser.value(f"{last}.querySelector('.text').textContent") == said, f"the answer: {browser.value(f'{last}.textContent')!r}, not {said!r}")
                speed = browser.value("document.getElementById('speed').textContent")
                require("first token after" in speed and f"{expected['usage']['completion_tokens']} tokens" in speed and "tokens kept" in speed, f"the speed: {speed}")
                messages.append({"role": "assistant", "content": said})
            if "--picture" in sys.argv:
                picture = browser.do("Page.captureScreenshot", format="png")["data"]
                pathlib.Path(sys.argv[sys.argv.index("--picture") + 1]).write_bytes(base64.b64decode(picture))
            shown = browser.value("(tell({begin: 0, first: 1000, last: 3000}, {completion_tokens: 9, prompt_tokens: 5, prompt_tokens_details: {cached_tokens: 2}}, [1, 1], [5, 4], 'length'), document.getElementById('speed').textContent)")
            require(shown == "first token after 1.00 s \u00b7 4.0 tokens/s \u00b7 9 tokens \u00b7 prompt: 2 tokens kept, 3 read \u00b7 drafts: 3 of 4 accepted \u00b7 cut at the most tokens", f"the rate: {shown}")
            require(not browser.value("document.images.length") and browser.value("document.title") == "gdn serve", f"texts are no HTML: {speed}")
            kept_over_reload(browser, messages)
            edited(browser, s, messages)
            browser.fill("most", "4000")
            browser.fill("temperature", "3")
            browser.fill("text", "Go on.")
            browser.value("document.getElementById('send').click()")
            browser.until(f"document.querySelectorAll('.assistant').length === 2 && {last}.textContent.length > 20")
            browser.value("document.getElementById('stop').click()")
            browser.until("document.getElementById('stop').disabled")
            cut = browser.value(f"{last}.querySelector('.text').textContent")
            require(len(cut) > 20 and cut == browser.value("JSON.parse(localStorage.getItem('gdn')).messages.at(-1).content"), "a text that was stopped is kept")
            browser.fill("key", "wrong")
            browser.fill("text", "x")
            browser.value("document.getElementById('send').click()")
            browser.until("document.querySelector('.error') && document.querySelector('.error').textContent.startsWith('401: an API key')")
    finally:
        browser.end()


if not shutil.which("chromium"):
    print("chromium is not installed")
    sys.exit(SKIPPED)
os.environ["HOME"] = tempfile.gettempdir()
run_tests(page)
