"""gdn serve as a process, and its client."""
import contextlib
import http.client
import json
import pathlib
import re
import signal
import struct
import subprocess
import time

from gguf_file import File, value
from tool import MODEL, TOOL, report, require

WAIT = 120  # seconds for what takes less than one, on a busy machine
SETTINGS = ("--ctx", "4096", "--prefix-cache", "16", "--prefix-interval", "16")
PROMPT = "In the beginning"
TOOLS = [{"type": "function", "function": {"name": "now"}}, {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}}]
FORM = ("{% if messages[0].content == 'no' %}{{ raise_exception('no') }}{% endif %}{% if tools %}<|im_start|>system\n{{ tools|tojson }}<|im_end|>\n{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}"
        "{% for k, v in c.function.arguments|items %} {{ k }}={{ v }}{% endfor %}</call>{% endfor %}{{ m.tool_call_id }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n{{ note }}")


PLAIN = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTES = {b: chr(b) for b in PLAIN} | {b: chr(256 + i) for i, b in enumerate(sorted({*range(256)} - {*PLAIN}))}  # how byte-level vocabularies write bytes


class Server:
    def __init__(self, *options, model=MODEL, settings=SETTINGS):
        command = [TOOL, "serve", "-m", model, "--port", "0", "--threads", "1", *settings, *map(str, options)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        line = self.process.stdout.readline()
        self.port = int(line.rsplit(":", 1)[1]) if line else 0
        require(re.match("gdn serve: listening on http://[0-9.]+:[0-9]+$", line), f"the first line: {line}")

    def open(self, path, body=None, method=None, headers=None):
        """The connection and the response, whose body is not read."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
        body = json.dumps(body) if isinstance(body, (dict, list)) else body
        connection.request(method or ("GET" if body is None else "POST"), path, body, headers or {})
        return connection, connection.getresponse()

    def ask(self, path, body=None, method=None, headers=None):
        """Status, body (an object if it is JSON) and headers."""
        connection, response = self.open(path, body, method, headers)
        text = response.read()
        connection.close()
        is_json = response.getheader("Content-Type") == "application/json"
        return response.status, json.loads(text) if is_json else text.decode(), response

    def events(self, path, body):
        """The objects of a stream and whether it ended with [DONE]."""
        status, text, response = self.ask(path, {**body, "stream": True})
        require(status == 200 and response.getheader("Content-Type") == "text/event-stream", f"a stream: {status} {text}")
        lines = [line for line in text.split("\n") if line]
        require(all(line.startswith("data: ") or line == ": waiting" for line in lines) and text.count("\n") == 2 * len(lines), "the form of events")
        lines = [line for line in lines if line[0] != ":"]
        return [json.loads(line[6:]) for line in lines if line != "data: [DONE]"], lines[-1:] == ["data: [DONE]"]

    def text(self, body, n=0):
        return self.ask("/v1/completions", body)[1]["choices"][n]["text"]

    def metric(self, name):
        lines = self.ask("/metrics")[1].splitlines()
        return int(next(line for line in lines if line.startswith(f"gdn_{name} ")).split()[1])

    def until(self, name, wanted):
        """True if the metric gets there."""
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            if wanted(self.metric(name)):
                return True
            time.sleep(0.01)
        return False

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=WAIT)
        return self.process.returncode, said


@contextlib.contextmanager
def server(*options, **more):
    s = Server(*options, **more)
    try:
        yield s
    finally:
        if s.process.poll() is None:
            code, said = s.end()
            require(code == -signal.SIGTERM and "anitizer" not in said and "runtime error" not in said, f"the end: {code} {said}")
        else:
            require(s.process.returncode == -signal.SIGTERM, f"the server ended: {s.process.returncode} {s.process.stderr.read()}")


def joined(events, index=0, of="text"):
    """The text of a stream's events."""
    choices = [c for e in events for c in e.get("choices", []) if c["index"] == index]
    return "".join((c[of] if of == "text" else c["delta"].get(of, "")) for c in choices), choices[-1]["finish_reason"]


def refused(s, status, param, body, path="/v1/completions", **more):
    got, answer, response = s.ask(path, body, **more)
    error = answer.get("error", {}) if isinstance(answer, dict) else {}
    require(got == status and set(error) == {"message", "type", "param", "code"} and error["param"] == param,
            f"{status} for {param}: {got} {str(answer)[:300]}")
    require(not param or param.split(".")[-1].split("[")[0] in error["message"], f"the name of {param}: {error}")
    return error, response


def ran(*arguments):
    return report("-m", MODEL, "--threads", "1", "--ctx", "4096", *arguments, otherwise={"requests": [{"text": "", "tokens": []}]})["requests"]


def speaking(folder, texts, end=None):
    """The model, with other texts for some of its tokens, and another end token."""
    file = File(pathlib.Path(MODEL))
    tokens = file.strings("tokenizer.ggml.tokens")
    for token, text in texts.items():
        tokens[token] = "".join(BYTES[b] for b in (text.encode() if isinstance(text, str) else text))
    known = set(tokens)
    merges = [m for m in file.strings("tokenizer.ggml.merges") if known.issuperset((*m.split(" "), m.replace(" ", "")))]
    if end:
        kinds = list(struct.unpack(f"<{len(tokens)}i", file.keys["tokenizer.ggml.token_type"][16:]))
        kinds[end] = 3
        file = file.having({"tokenizer.ggml.token_type": value(kinds), "tokenizer.ggml.eos_token_id": value(end)})
    return file.having({"tokenizer.ggml.tokens": value(tokens), "tokenizer.ggml.merges": value(merges)}).write(folder / "speaking.gguf")
