"""gdn.exactness, beside servers that answer well, wrongly in one way, or lack something."""
import contextlib
import hashlib
import http.server
import io
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
import unittest

from gdn import exactness

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "build-test/bin/gdn"
MODEL = ROOT / "models/kjv-small-q8_0.gguf"
FIVE = ("replay", "shuffled", "batch", "cached", "prefill")
SMALL = ("--prompts", "4", "--at-once", "12", "--tokens", "4")
FIELDS = {"model", "prompt", "messages", "max_tokens", "temperature", "logprobs", "top_logprobs"}  # of every server
MORE = {"ignore_eos", "return_tokens_as_token_ids", "echo", "cache_salt"}


class Fake(http.server.ThreadingHTTPServer):
    """A server whose answers are hashes of the text. faults: what they wrongly depend on. lacks: what it does not have."""

    request_queue_size = 128
    daemon_threads = True

    def __init__(self, *faults, lacks=(), more=MORE):
        super().__init__(("127.0.0.1", 0), Handler)
        self.faults, self.lacks, self.fields = set(faults), set(lacks), FIELDS | set(more)
        self.lock, self.slots, self.kept, self.requests, self.full = threading.Lock(), set(), set(), 0, 0
        self.ignored = set()  # fields that are taken and change nothing
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    @contextlib.contextmanager
    def slot(self):
        """The slot that a request has, and how many are beside it. Requests that meet others stay until all are there."""
        with self.lock:
            mine = min(set(range(len(self.slots) + 1)) - self.slots)
            self.slots.add(mine)
            self.requests += 1
        beside = 1
        if self.faults & {"batch", "order", "breaks"}:
            time.sleep(0.02)
            beside = len(self.slots)
            time.sleep(0.4 * (beside > 1))
            beside = max(beside, len(self.slots))
        try:
            yield mine, beside
        finally:
            with self.lock:
                self.slots.discard(mine)

    def next(self, context, prefill):
        """The token after a context, and its log-probability."""
        digest = hashlib.sha256(" ".join(map(str, context)).encode()).digest()
        value = -int.from_bytes(digest[:4], "big") / 2 ** 30
        return digest[4] | 16, round(value, 2) if prefill and "prefill" in self.faults else value

    def complete(self, body):
        chat = "messages" in body
        given = body["messages"][0]["content"] if chat else body["prompt"]
        prompt = given.split() if isinstance(given, str) else given
        unit = str if isinstance(given, str) else int
        key = body.get("cache_salt", ""), tuple(prompt)
        with self.lock:
            most = 0 if "cache" in self.lacks else 410 if "long cache" in self.lacks else 1 << 20
            cached = len(prompt) - 1 if key in self.kept and len(prompt) <= most and body.get("cache_prompt", True) else 0
            self.kept.add(key)
        with self.slot() as (slot, beside):
            if "breaks" in self.faults and beside > 4:
                return None
            wrong = {"batch": beside > 4, "order": slot, "cache": cached > 0, "random": self.requests}
            apart = 1e-6 * sum(by for name, by in wrong.items() if name in self.faults)
        context, tokens, logprobs = list(prompt), [], []
        if body.get("echo"):
            tokens = list(prompt)
            logprobs = [None] + [self.next(prompt[:i], True)[1] + apart for i in range(1, len(prompt))]
            if "first tokens" in self.faults:
                tokens = [tokens[0]] + ["x" for _ in tokens[1:]]
        for i in range(body["max_tokens"]):
            token, logprob = self.next(context, i == 0)
            if i and "drafts" in self.faults:
                logprob += 1e-6
            if i and "draft tokens" in self.faults:
                token ^= 1
            if "nan" in self.faults:
                logprob = float("nan")
            context.append(unit(token))
            tokens.append(unit(token))
            logprobs.append(logprob + apart)
        text = "".join(f" {x}" for x in context[len(prompt):])
        names = [f"token_id:{x}" for x in tokens] if body.get("return_tokens_as_token_ids") else [str(x) for x in tokens]
        choice = {"text": text, "logprobs": {"tokens": names, "token_logprobs": logprobs}}
        if "llama" in self.faults:
            choice["logprobs"] = {"content": [{"id": x, "token": "same", "logprob": y} for x, y in zip(tokens, logprobs)]}
        if chat:
            content = [{"token": x, "logprob": y} for x, y in zip(names, logprobs)]
            choice = {"message": {"content": text}, "logprobs": {"content": content}}
        if body.get("return_token_ids"):
            choice.update(token_ids=context[len(prompt):], prompt_token_ids=prompt)
        if "prompt_logprobs" in body:
            rows = [{str(prompt[i]): {"logprob": self.next(prompt[:i], True)[1]}} for i in range(1, len(prompt))]
            choice["prompt_logprobs"] = [None, *rows]
        if "logprobs" in self.lacks:
            choice["logprobs"] = None
        if "llama" in self.faults:
            return {"choices": [choice], "timings": {"cache_n": cached, "draft_n": 3}}
        details = None if "cached_tokens" in self.lacks else {"cached_tokens": cached}
        return {"choices": [choice], "usage": {"prompt_tokens": len(prompt), "prompt_tokens_details": details}}

    def refusal(self, path, body):
        """(status, words) of a request that the server does not take."""
        if path == "/v1/chat/completions" and "chats" in self.lacks or path == "/v1/completions" and "completions" in self.lacks:
            return 404, "Not Found"
        if "ids" in self.lacks and isinstance(body.get("prompt"), list):
            return 400, "prompt: a text is allowed"
        if "ignores" not in self.faults:
            for name in body:
                if name not in self.fields:
                    return 400, f"{name} is not supported"
        if body.get("cache_salt") == "" and "cache_salt" in self.fields:
            return 400, "cache_salt must not be empty"
        if body["max_tokens"] == 0 and "no tokens" in self.lacks:
            return 400, "max_tokens: at least 1"
        return None


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def reply(self, data, status=200, **headers):
        raw = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        headers = {"Content_Length": len(raw), **headers}
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(raw)

    def do_GET(self):
        known = self.path == "/v1/models" and "models" not in self.server.lacks
        self.reply({"data": [{"id": "fake"}]} if known else {"error": "Not Found"}, 200 if known else 404)

    def do_POST(self):
        server, body = self.server, json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        refusal = server.refusal(self.path, body)
        if "key" in server.lacks and self.headers["Authorization"] != "Bearer secret":
            self.reply({"error": {"message": "no such key"}}, 401)
        elif "500" in server.faults:
            self.reply({"detail": "it\x1b broke"}, 500)
        elif "closes" in server.faults:
            self.close_connection = True
        elif "short" in server.faults:
            self.reply(b"{}", Content_Length=100)
        elif "not JSON" in server.faults:
            self.reply(b"<html>")
        elif "deep" in server.faults:
            self.reply(b"[" * 100000)
        elif "no choices" in server.faults:
            self.reply({"choices": []})
        elif "slow" in server.faults:
            time.sleep(1)
        elif "full" in server.faults and server.full < 3:
            server.full += 1
            self.reply({"error": {"message": "full"}}, 429, Retry_After=0)
        elif refusal:
            self.reply({"error": {"message": refusal[1]}}, refusal[0])
        else:
            found = server.complete({name: value for name, value in body.items() if name not in server.ignored})
            self.reply(found or {"error": {"message": "too much at once"}}, 200 if found else 500)


def ask(*given):
    """(exit status, stdout, stderr)."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = exactness.main(given)
        except SystemExit as end:
            status = end.code
    return status, out.getvalue(), err.getvalue()


class Exactness(unittest.TestCase):
    def lines(self, fake, *given, expected):
        status, out, err = ask("--url", fake.url, *SMALL, "--json", *given)
        self.assertEqual(status, expected, out + err)
        return {x["question"]: x for x in json.loads(out)["questions"]}, json.loads(out)["server"]

    def check(self, fake, *given, differ=(), unasked=(), unverified=(), may=(), names=FIVE):
        """Exactly these questions have these verdicts, those in `may` any, and all others are the same."""
        expected = 1 if differ else 2 if unasked or unverified else 0
        found, about = self.lines(fake, *given, expected=expected)
        self.assertEqual(tuple(found), tuple(names))
        for name, line in found.items():
            if name not in may:
                lists = (("differ", differ), ("not asked", unasked), ("unverified", unverified))
                self.assertEqual(line["verdict"], next((verdict for verdict, of in lists if name in of), "same"), line)
            if line["verdict"] == "not asked":
                self.assertTrue(line["note"] and not line["answers"], line)
            if line["verdict"] == "differ":
                self.assertLess(line["same_bits"], line["answers"])
        return found, about

    def test_good(self):
        with Fake() as fake:
            found, about = self.check(fake)
            self.assertIn("token numbers", about)
            self.assertIn("cache_salt", about)
            self.assertEqual([x["answers"] for x in found.values()], [4, 4, 1, 1, 1])
            self.assertEqual([x["tokens"] for x in found.values()], [16, 16, 4, 4, 4])
            self.assertEqual(found["prefill"]["note"], "by echo")
            self.assertEqual(max(x["largest"] + x["mean"] + x["kl"] for x in found.values()), 0)

    def test_hidden_tokens(self):
        """An answer of more tokens than it names cannot be read again as a prompt."""
        server = exactness.Server.__new__(exactness.Server)
        server.path = "/completions"
        for tokens, finish, hides in ((2, "length", False), (3, "length", True), (3, "stop", False), (4, "stop", True), (None, "length", False)):
            data = {"choices": [{"text": "x", "finish_reason": finish, "logprobs": {"tokens": ["token_id:5", "token_id:6"], "token_logprobs": [-1, -2]}}],
                    "usage": {"completion_tokens": tokens}}
            found = server.parse(data, False)
            self.assertEqual((found.tokens, found.hides), ([5, 6], hides))

    def test_figures(self):
        """Of 3 answers one has a difference in its log-probabilities and one another token."""
        alone = [exactness.Answer([1, 2, 3], [-1.0, -2.0, -3.0], "", 0, None, None)] * 3
        other = [alone[0], alone[0]._replace(logprobs=[-1.0, -2.5, -3.0]), alone[0]._replace(tokens=[1, 4, 3])]
        line = exactness.compare("x", other, alone)
        self.assertEqual((line.verdict, line.answers, line.same_bits, line.same_tokens, line.tokens), ("differ", 3, 1, 2, 7))
        self.assertEqual((line.largest, round(line.mean * 7, 12)), (0.5, 0.5))
        self.assertAlmostEqual(line.kl * 7, 2.718281828459045 ** -0.5 + 0.5 - 1, 12)
        self.assertEqual(exactness.compare("x", other, alone, given=True).tokens, 8)  # also after the other token
        self.assertEqual(exactness.compare("x", [alone[0]._replace(logprobs=[-1.0, 1000.0, -3.0])], alone[:1]).kl, float("inf"))
        text = exactness.compare("x", [alone[0]._replace(text="more")], alone[:1])  # a server may leave tokens out of its lists
        self.assertEqual((text.verdict, text.same_tokens), ("differ", 0))
        empty = alone[0]._replace(tokens=[], logprobs=[])
        self.assertEqual(exactness.compare("x", [empty], [empty]).verdict, "not asked")
        shorter = alone[0]._replace(tokens=[1, 2], logprobs=[-1.0, -2.0])
        self.assertEqual(exactness.compare("x", [shorter], alone[:1]).verdict, "differ")
        self.assertEqual(exactness.compare("x", alone, alone, doubt="?").verdict, "unverified")

    def test_wrong(self):
        """Each dependence is found, by its question."""
        for fault, differ, may in (("random", FIVE, ()), ("order", ("shuffled",), ("batch",)), ("batch", ("batch",), ()),
                                   ("cache", ("cached",), ()), ("prefill", ("prefill",), ())):
            with self.subTest(fault), Fake(fault) as fake:
                found, _ = self.check(fake, differ=differ, may=may)
                self.assertTrue(all(0 < found[name]["largest"] < 0.01 for name in differ))
                self.assertTrue(all(found[name]["same_tokens"] == found[name]["answers"] for name in differ))

    def test_drafts(self):
        names = (*FIVE, "drafts")
        for fault, differ in ((), ()), (("drafts",), ("drafts",)), (("draft tokens",), ("drafts",)):
            with self.subTest(fault), Fake() as fake, Fake(*fault) as other:
                found, _ = self.check(fake, "--drafts-url", other.url, differ=differ, names=names)
                self.assertEqual(found["drafts"]["same_tokens"], 0 if "draft tokens" in fault else 4)
        with Fake() as fake, Fake(lacks=["ids"]) as other:
            self.check(fake, "--drafts-url", other.url, unasked=["drafts"], names=names)
        with Fake() as fake, Fake("500") as other:
            found, _ = self.check(fake, "--drafts-url", other.url, unasked=["drafts"], names=names)
            self.assertIn("HTTP 500: it  broke", found["drafts"]["note"])

    def test_prefill(self):
        """Without echo, prefill is asked by prompt_logprobs, and without these token by token."""
        for more, lacks, by in ((MORE, ["no tokens"], "echo"), (MORE - {"echo"} | {"prompt_logprobs"}, (), "prompt_logprobs"),
                                (MORE - {"echo"}, (), "beginnings"),
                                (MORE - {"return_tokens_as_token_ids"} | {"return_token_ids"}, (), "echo")):
            for faults in (), ("prefill",):
                with self.subTest(by=by, faults=faults), Fake(*faults, more=more, lacks=lacks) as fake:
                    found, about = self.check(fake, differ=["prefill"] if faults else ())
                    self.assertIn("token numbers", about)
                    self.assertEqual(found["prefill"]["note"], f"by {by}")
        with Fake("ignores", more=MORE - {"echo"}) as fake:  # 200, and echo and prompt_logprobs change nothing
            fake.ignored = {"echo", "prompt_logprobs"}
            self.assertEqual(self.check(fake)[0]["prefill"]["note"], "by beginnings")

    def test_lacks(self):
        """Texts for numbers, chats for completions; what is not there is named."""
        with Fake(lacks=["ids"]) as fake:
            self.assertIn("completions, texts", self.check(fake)[1])
        with Fake(more=MORE - {"return_tokens_as_token_ids"}) as fake:
            self.assertIn("completions, texts", self.check(fake)[1])
        with Fake(lacks=["ids"], more=MORE - {"echo"}) as fake:
            self.assertIn("echo is not supported", self.check(fake, unasked=["prefill"])[0]["prefill"]["note"])
        with Fake("ignores", lacks=["ids"]) as fake:
            fake.ignored = {"echo"}
            self.assertIn("echo has no effect", self.check(fake, unasked=["prefill"])[0]["prefill"]["note"])
        with Fake("first tokens", lacks=["ids"]) as fake:
            self.assertIn("other tokens", self.check(fake, unasked=["prefill"])[0]["prefill"]["note"])
        with Fake(lacks=["completions"]) as fake:
            found, about = self.check(fake, unasked=["prefill"])
            self.assertIn("chats", about)
            self.assertIn("chats give no", found["prefill"]["note"])
        with Fake("batch", lacks=["completions"]) as fake:
            self.check(fake, differ=["batch"], unasked=["prefill"])

    def test_llama_server(self):
        """Its completions have the lists of chats, with numbers, and its counts are in `timings`."""
        more = {"ignore_eos", "cache_prompt"}
        names = (*FIVE, "drafts")
        for fault, differ in ("", ()), ("cache", ["cached"]), ("prefill", ["prefill"]):
            with self.subTest(fault), Fake("llama", fault, more=more) as fake:
                found, about = self.check(fake, "--drafts-url", fake.url, differ=differ, names=names)
                self.assertIn("token numbers, ignore_eos; prompts are read whole by cache_prompt", about)
                self.assertEqual(found["drafts"]["note"], "12 tokens were drafted")
        with Fake("llama", more=more) as fake, Fake("llama", "draft tokens", more=more) as other:
            self.check(fake, "--drafts-url", other.url, differ=["drafts"], names=names)

    def test_caches(self):
        with Fake(lacks=["cache"]) as fake:
            self.assertIn("nothing from a cache", self.check(fake, unasked=["cached"])[0]["cached"]["note"])
        with Fake(lacks=["long cache"]) as fake:  # it keeps what finds this out, and not what the question asks
            self.assertIn("nothing from a cache", self.check(fake, unasked=["cached"])[0]["cached"]["note"])
        with Fake(lacks=["cached_tokens"]) as fake:  # it knows cache_salt, since it refuses an empty one
            found, about = self.check(fake, unverified=["cached"])
            self.assertIn("cache_salt", about)
            self.assertIn("does not say", found["cached"]["note"])
        with Fake("cache", lacks=["cached_tokens"]) as fake:
            self.check(fake, differ=["cached"])
        without = MORE - {"cache_salt"}
        with Fake(more=without) as fake:  # it tells what it took
            found, about = self.check(fake)
            self.assertIn("cache_salt is not supported", about)
            self.assertIn("came from the server's cache", found["replay"]["note"])
        with Fake(more=without - {"echo"}) as fake:
            self.assertIn("came from", self.check(fake, unverified=["prefill"])[0]["prefill"]["note"])
        with Fake("cache", more=without) as fake:  # every question but prefill reads prompts that it has kept
            self.check(fake, differ=["replay", "shuffled", "batch", "cached"])
        with Fake(more=without - {"echo"}, lacks=["cached_tokens"]) as fake:
            found, about = self.check(fake, unverified=["cached", "prefill"])
            self.assertIn("does not say", about)
        with Fake("ignores", more=without, lacks=["cached_tokens"]) as fake:  # takes cache_salt, and does not know it
            fake.ignored = {"cache_salt"}
            self.assertIn("cache_salt has no visible effect", self.check(fake, unverified=["cached"])[1])

    def test_unusable(self):
        """Servers that cannot be asked: a plain message, no table, status 2."""
        broken = (("500", "HTTP 500: it  broke"), ("closes", "ended the connection"), ("short", "ended the connection"),
                  ("not JSON", "not JSON: '<html>'"), ("deep", "not JSON"), ("no choices", "has no choices"),
                  ("slow", "no answer in 0.3 seconds"), ("nan", "not a finite number"))
        lacking = ((["logprobs"], "gives no log-probabilities"), (["models"], "/v1?"), (["key"], "HTTP 401: no such key"),
                   (["completions", "chats"], "HTTP 404: Not Found"))
        for fault, lacks, words in [(x, (), y) for x, y in broken] + [("", x, y) for x, y in lacking]:
            with self.subTest(fault or lacks), Fake(fault, lacks=lacks) as fake:
                status, out, err = ask("--url", fake.url, *SMALL, *(["--timeout", "0.3"] if fault == "slow" else []))
                self.assertEqual((status, out), (2, ""), err)
                self.assertIn(words, err)
                self.assertIn("gdn.exactness: ", err)
                self.assertNotIn("Traceback", err)
                self.assertNotIn("\x1b", err)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            status, out, err = ask("--url", f"http://127.0.0.1:{free.getsockname()[1]}/v1")
        self.assertEqual((status, out), (2, ""))
        self.assertIn("cannot be reached", err)

    def test_breaks(self):
        """A question that fails is named, and the others are asked."""
        with Fake("breaks") as fake:
            self.assertIn("HTTP 500: too much at once", self.check(fake, unasked=["batch"])[0]["batch"]["note"])

    def test_full(self):
        with Fake("full") as fake:
            self.check(fake)
            self.assertEqual(fake.full, 3)

    def test_key(self):
        with Fake(lacks=["key"]) as fake:
            self.check(fake, "--api-key", "secret")

    def test_table(self):
        with Fake("batch") as fake:
            status, out, err = ask("--url", fake.url, *SMALL)
        self.assertEqual(status, 1, err)
        rows = out.splitlines()
        self.assertEqual(rows[0].split("  ")[-1].strip(), "KL")
        self.assertRegex(rows[1], r"^replay +4 of 4 +4 of 4 +0 +0 +0$")
        self.assertRegex(rows[3], r"^batch +0 of 1 +1 of 1 +1e-06 +1e-06 +5e-13$")
        for name in FIVE:
            self.assertIn(f"\n{name}\n", err)

    def test_arguments(self):
        good = ("--url", "http://127.0.0.1:1/v1")
        cases = [((), "--url"), ((*good, "more"), "more"), ((*good, "--prompt", "3"), "--prompt"),
                 ((*good, "--api-key", "a\nb"), "printable")]
        cases += [(("--url", url), url[-9:]) for url in ("127.0.0.1:8000", "file:///etc/passwd", "http://:80/v1", "http://a:99999/v1",
                                                         "http://a/v1?x=1", "http://a b/v1")]
        cases += [((*good, name, value), repr(value)) for name, value in (
            ("--prompts", "0"), ("--at-once", "1"), ("--tokens", "x"), ("--timeout", "nan"), ("--timeout", "0"), ("--drafts-url", "x"))]
        for given, words in cases:
            status, out, err = ask(*given)
            self.assertEqual((status, out), (2, ""), given)
            self.assertIn(words, err)
            self.assertNotIn("a\nb", err)

    def test_program(self):
        """As a module, and as a file where no library is."""
        for program in ("-m", "gdn.exactness"), (str(ROOT / "python/gdn/exactness.py"),):
            ran = subprocess.run([sys.executable, *program, "--help"], capture_output=True, text=True, check=False)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""))
            self.assertIn("--drafts-url", ran.stdout)


class OfGdn(unittest.TestCase):
    def ask(self, *options):
        command = [str(TOOL), "serve", "-m", str(MODEL), "--port", "0", "--ctx", "2048", "--parallel", "4", "-t", "1", *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            try:
                return ask("--url", process.stdout.readline().split()[-1] + "/v1", *SMALL, "--json")
            finally:
                process.terminate()

    def verdicts(self, expected, *options):
        status, out, err = self.ask(*options)
        self.assertEqual(status, expected, out + err)
        return {x["question"]: x["verdict"] for x in json.loads(out)["questions"]}

    @unittest.skipUnless(os.path.exists(TOOL), f"{TOOL} is missing: scripts/test.sh --stage build makes it")
    def test_serve(self):
        """All is the same. echo reads a prompt anew, so with a cache all five can be asked."""
        self.assertEqual(self.verdicts(2, "--prefix-cache", "0"), {**dict.fromkeys(FIVE, "same"), "cached": "not asked"})
        self.assertEqual(self.verdicts(0, "--prefix-cache", "64", "--prefix-interval", "16"), dict.fromkeys(FIVE, "same"))


if __name__ == "__main__":
    unittest.main()
