"""Do a server's answers depend on what runs beside them, on its caches, or on how a text was computed?

    python -m gdn.exactness --url http://127.0.0.1:8000/v1 [--model NAME] [--drafts-url http://127.0.0.1:8001/v1]

    replay       the same prompts again, one after another
    shuffled     the prompts at once, in another order, beside each alone
    batch        one prompt alone, beside the same one among many
    cached       prompts whose beginning the server has kept, beside the same ones read whole
    prefill      log-probabilities of tokens that were generated one by one, beside those of the whole text read at once
    drafts       with --drafts-url: the answers of a second server of the same model that uses drafts

The server has OpenAI's interface. Its answers are greedy. Two answers have the same bits if their tokens and the log-probabilities
in the server's JSON are equal. Exit status: 0 all the same; 1 some differ; 2 otherwise, as when a question could not be asked.
docs/guide/exactness.md of libgdn explains the questions and the limits. This file needs only the standard library.
"""
from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import http.client
import json
import math
import os
import random
import socket
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

Unit = Union[int, str]  # of a prompt: the number of a token, or a word
IDS = range(16, 256)    # numbers that every tokenizer has, and that are seldom control tokens
BEGINNINGS = (400, 1600)  # tokens of a beginning that a server may keep: the second where it keeps nothing of the first
FRESH = random.SystemRandom()


class Failed(Exception):
    """A request without a usable answer. str() says why, in the server's words where it has any."""

    def __init__(self, words: str):
        super().__init__("".join(c if c.isprintable() else " " for c in words)[:400])


class Refused(Failed):
    """The server answered, but not with what was asked for. It may answer another request."""


class Answer(NamedTuple):
    tokens: List[Any]      # numbers, or texts where the server gives none
    logprobs: List[float]
    text: str
    prompt: int            # tokens of the prompt; 0: the server does not say
    cached: Optional[int]  # ... of which it took this many from its cache
    drafted: Optional[int]  # tokens that were drafted
    hides: bool = False    # it has tokens that the server does not name, such as an end token after which it went on


def member(data: Any, *path: Union[str, int]) -> Any:
    """What is at a path in parsed JSON, or None."""
    for name in path:
        if isinstance(data, dict):
            data = data.get(name)
        elif isinstance(data, list) and isinstance(name, int) and name < len(data):
            data = data[name]
        else:
            return None
    return data


def count(data: Any, *path: Union[str, int]) -> Optional[int]:
    found = member(data, *path)
    return found if isinstance(found, int) and found >= 0 else None


class Client:
    """Requests to a server, from any number of threads."""

    def __init__(self, url: str, key: Optional[str], timeout: float):
        self.url, self.timeout = url.rstrip("/"), timeout
        self.headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}

    def ask(self, path: str, body: Optional[Dict[str, Any]] = None) -> Any:
        """The JSON of an answer. A server that is full (429 with Retry-After) is asked again until the timeout."""
        end = time.monotonic() + self.timeout
        while True:
            request = urllib.request.Request(self.url + path, None if body is None else json.dumps(body).encode(), self.headers)
            try:
                with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                    raw = answer.read()
                break
            except urllib.error.HTTPError as error:
                wait = error.headers.get("Retry-After", "") if error.code == 429 else ""
                if wait.isdigit() and time.monotonic() + int(wait) < end:
                    error.close()
                    time.sleep(int(wait))
                    continue
                kind = Failed if error.code in (401, 403, 429) else Refused
                raise kind(f"HTTP {error.code}: {self.words_of(error)}") from None
            except urllib.error.URLError as error:
                raise Failed(f"{self.url} cannot be reached: {error.reason}") from None
            except socket.timeout:
                raise Failed(f"no answer in {self.timeout:g} seconds (--timeout)") from None
            except (OSError, http.client.HTTPException) as error:
                raise Failed(f"the server ended the connection: {type(error).__name__}: {error}") from None
        try:
            return json.loads(raw)
        except (ValueError, RecursionError):
            raise Failed(f"the answer is not JSON: {raw[:80].decode('utf-8', 'replace')!r}") from None

    @staticmethod
    def words_of(error: urllib.error.HTTPError) -> str:
        try:
            with error:
                raw = error.read()
        except (OSError, http.client.HTTPException):
            raw = b""
        try:
            data = json.loads(raw)
        except (ValueError, RecursionError):
            data = None
        for path in (("error", "message"), ("message",), ("error",), ("detail",)):
            if member(data, *path):
                return str(member(data, *path))
        return raw[:200].decode("utf-8", "replace").strip() or error.reason


class Server:
    """A server, and what it can do, which a few requests find out."""

    def __init__(self, client: Client, model: Optional[str]):
        self.client = client
        self.path = "/completions"
        self.ids = True                  # prompts and answers are numbers of tokens
        self.fields: Dict[str, Any] = {"model": self.first_model() if model is None else model, "temperature": 0}
        self.says_cached = False         # answers say how many tokens came from a cache
        self.caches = False              # ... and some did
        self.whole: Optional[Callable[[], Dict[str, Any]]] = None  # fields of a request that lets the server read a prompt whole
        self.without_whole = ""          # why there are none
        self.beginning = BEGINNINGS[0]
        self.find_interface()
        self.find_fields()
        self.find_cache()

    def first_model(self) -> str:
        try:
            found = member(self.client.ask("/models"), "data", 0, "id")
        except Refused as why:
            raise Failed(f"{self.client.url}/models: {why} (does the URL end with /v1?)") from None
        if not isinstance(found, str):
            raise Failed(f"{self.client.url}/models names no model: give --model")
        return found

    def fresh(self) -> List[Unit]:
        """The first units of a prompt that the server has never read."""
        return [*FRESH.choices(IDS, k=4)] if self.ids else ["".join(FRESH.choices("bdfgklmnprstvz", k=8))]

    def draw(self, draw: random.Random, tokens: int) -> List[Unit]:
        """About this many tokens."""
        if self.ids:
            return [*draw.choices(IDS, k=tokens)]
        words = -(-tokens // 3)
        return ["".join(draw.choice("bdfgklmnprstvz") + draw.choice("aeiou") for _ in range(draw.choice((1, 2, 3)))) for _ in range(words)]

    def body(self, prompt: Union[Sequence[Unit], str], tokens: int, **more: Any) -> Dict[str, Any]:
        given = prompt if isinstance(prompt, str) else list(prompt) if self.ids else " ".join(map(str, prompt))
        what: Dict[str, Any] = {"prompt": given, "logprobs": 1}
        if self.path != "/completions":
            what = {"messages": [{"role": "user", "content": given}], "logprobs": True, "top_logprobs": 1}
        return {**what, "max_tokens": tokens, **self.fields, **more}

    def ask(self, prompt: Union[Sequence[Unit], str], tokens: int, **more: Any) -> Answer:
        return self.parse(self.client.ask(self.path, self.body(prompt, tokens, **more)), bool(more.get("echo")))

    def answer(self, prompt: Union[Sequence[Unit], str], tokens: int, **more: Any) -> Answer:
        """The answer to a prompt that is read whole, if the server can be made to."""
        return self.ask(prompt, tokens, **more, **(self.whole() if self.whole else {}))

    def parse(self, data: Any, echo: bool) -> Answer:
        choice = member(data, "choices", 0)
        if not isinstance(choice, dict):
            raise Refused(f"the answer has no choices: {json.dumps(data)[:120]}")
        found = choice.get("logprobs")
        content = member(found, "content")
        if isinstance(content, list):  # of chats, and of llama-server's completions
            names, logprobs = [member(one, "token") for one in content], [member(one, "logprob") for one in content]
            if content and all(count(one, "id") is not None for one in content):
                names = [one["id"] for one in content]
        else:
            names, logprobs = member(found, "tokens"), member(found, "token_logprobs")
        if not isinstance(names, list) or not isinstance(logprobs, list) or len(names) != len(logprobs):
            raise Refused("the server gives no log-probabilities")
        numbers = choice.get("token_ids")
        if isinstance(numbers, list):
            numbers = (choice.get("prompt_token_ids") or []) * echo + numbers
            if len(numbers) == len(names):
                names = numbers
        names = [int(x[9:]) if isinstance(x, str) and x.startswith("token_id:") and x[9:].isdigit() else x for x in names]
        if echo and logprobs and logprobs[0] is None:  # nothing is before the first token
            logprobs = [0.0, *logprobs[1:]]
        if not all(isinstance(x, (int, float)) and math.isfinite(x) for x in logprobs):
            raise Failed("a log-probability is not a finite number")
        text = choice.get("text") if self.path == "/completions" else member(choice, "message", "content")
        cached = count(data, "usage", "prompt_tokens_details", "cached_tokens")
        return Answer(names, [float(x) for x in logprobs], text if isinstance(text, str) else "",
                      count(data, "usage", "prompt_tokens") or 0, count(data, "timings", "cache_n") if cached is None else cached,
                      count(data, "timings", "draft_n"),
                      (count(data, "usage", "completion_tokens") or 0) > len(names) + (choice.get("finish_reason") == "stop"))

    def find_interface(self) -> None:
        """Completions of token numbers, of texts, or chats. The first that answers with log-probabilities is used."""
        said: List[str] = []
        tries: Tuple[Tuple[str, bool, Dict[str, Any]], ...] = (
            ("/completions", True, {"return_tokens_as_token_ids": True}), ("/completions", True, {"return_token_ids": True}),
            ("/completions", True, {}), ("/completions", False, {}), ("/chat/completions", False, {}))
        for self.path, self.ids, more in tries:
            try:
                found = self.ask(self.fresh(), 2, **more)
            except Refused as why:
                said += [str(why)] if str(why) not in said else []
                continue
            if not found.tokens:
                said += ["an answer of 2 tokens has none"]
            elif not self.ids or all(isinstance(x, int) for x in found.tokens):
                self.fields.update(more)
                return
        raise Failed("; ".join(said))

    def accepts(self, **more: Any) -> str:
        """"" or the server's words."""
        try:
            self.ask(self.fresh(), 1, **more)
            return ""
        except Refused as why:
            return str(why)

    def find_fields(self) -> None:
        if not self.accepts(ignore_eos=True):
            self.fields["ignore_eos"] = True

    def find_cache(self) -> None:
        """Does it say what it takes from its cache, and can a request keep it from that?"""
        draw = random.Random(FRESH.random())
        for length in BEGINNINGS:
            prompt = [*self.fresh(), *self.draw(draw, length)]
            try:
                found = [self.ask(prompt, 1).cached for _ in range(3)]
            except Refused:  # too long for it
                break
            self.says_cached |= any(x is not None for x in found)
            self.beginning, self.caches = length, any(found[1:])
            if self.caches or not self.says_cached:
                break
        if self.says_cached and not self.caches:
            return
        ways: Tuple[Tuple[str, Callable[[], Any], Any], ...] = (
            ("cache_salt", lambda: f"{FRESH.getrandbits(64):016x}", ""), ("cache_prompt", lambda: False, None))
        said = []
        for name, value, wrong in ways:
            refused = self.accepts(**{name: value()})
            if refused:
                said.append(refused)
            elif self.caches and not self.ask(prompt, 1, **{name: value()}).cached:
                self.whole = lambda name=name, value=value: {name: value()}  # type: ignore[misc]
                return
            elif not self.says_cached and wrong is not None and self.accepts(**{name: wrong}):  # it knows the name
                self.whole = lambda name=name, value=value: {name: value()}  # type: ignore[misc]
                return
            else:
                said.append(f"{name} has no visible effect")
        self.without_whole = "; ".join(said)

    def about(self) -> str:
        what = "chats" if self.path.startswith("/chat") else "completions, " + ("token numbers" if self.ids else "texts")
        if self.whole:
            cache = f"prompts are read whole by {next(iter(self.whole()))}"
        elif self.says_cached:
            cache = "it says what it takes from its cache" if self.caches else "it takes nothing from a cache"
        else:
            cache = "it does not say what it takes from its cache"
        if self.without_whole:
            cache += f", and cannot be made to read a prompt whole: {self.without_whole}"
        return f"{self.client.url}, model {self.fields['model']}: {what}{', ignore_eos' if 'ignore_eos' in self.fields else ''}; {cache}"


def by_echo(generated: int) -> Callable[[Server, Sequence[Unit], Answer], Optional[Answer]]:
    """The whole text as a prompt, with its log-probabilities. None: it has other tokens as a prompt."""
    def of(server: Server, prompt: Sequence[Unit], answer: Answer) -> Optional[Answer]:
        whole: Any = [*prompt, *answer.tokens] if server.ids else " ".join(map(str, prompt)) + answer.text
        found = server.answer(whole, generated, echo=True)
        end = len(found.tokens) - generated
        if end < len(answer.tokens) + (len(prompt) if server.ids else 1):
            raise Refused("echo has no effect")
        tokens, logprobs = (x[end - len(answer.tokens):end] for x in (found.tokens, found.logprobs))
        return found._replace(tokens=tokens, logprobs=logprobs) if tokens == answer.tokens else None
    return of


def by_prompt_logprobs(server: Server, prompt: Sequence[Unit], answer: Answer) -> Answer:
    """vLLM's field for the same."""
    if not server.ids:
        raise Refused("prompt_logprobs needs the numbers of tokens")
    more = {"prompt_logprobs": 0, **(server.whole() if server.whole else {})}
    data = server.client.ask(server.path, server.body([*prompt, *answer.tokens], 1, **more))
    rows = member(data, "choices", 0, "prompt_logprobs")
    if not isinstance(rows, list) or len(rows) != len(prompt) + len(answer.tokens):
        raise Refused("prompt_logprobs has no effect")
    found = [member(row, str(token), "logprob") for row, token in zip(rows[len(prompt):], answer.tokens)]
    if not all(isinstance(x, (int, float)) and math.isfinite(x) for x in found):
        raise Refused("prompt_logprobs lacks a token of the prompt")
    return server.parse(data, False)._replace(tokens=answer.tokens, logprobs=[float(x) for x in found])


def by_beginnings(server: Server, prompt: Sequence[Unit], answer: Answer) -> Answer:
    """One token at the end of each beginning."""
    if not server.ids:
        raise Refused("texts cannot be cut at a token, and the server does not use the numbers of tokens")
    found = [server.answer([*prompt, *answer.tokens[:i]], 1) for i in range(len(answer.tokens))]
    if not all(x.tokens for x in found):
        raise Refused("an answer of one token has none")
    cached = sum(x.cached or 0 for x in found)
    return found[0]._replace(tokens=[x.tokens[0] for x in found], logprobs=[x.logprobs[0] for x in found],
                             prompt=sum(x.prompt for x in found), cached=cached)


PREFILL = (("echo", by_echo(0)), ("echo", by_echo(1)), ("prompt_logprobs", by_prompt_logprobs), ("beginnings", by_beginnings))


@dataclasses.dataclass
class Line:
    """The answer to a question. verdict: same; differ; unverified, if all were the same but the server may not have done what was
    asked; not asked."""

    question: str
    verdict: str = "not asked"
    answers: int = 0
    same_bits: int = 0
    same_tokens: int = 0
    tokens: int = 0  # compared: those up to the first different token
    largest: float = 0.0  # difference of log-probabilities
    mean: float = 0.0
    kl: float = 0.0
    note: str = ""


def compare(question: str, found: Sequence[Answer], alone: Sequence[Answer], given: bool = False, doubt: str = "", note: str = "") -> Line:
    """Each of `found` beside the one alone. given: every token had the same tokens before it, whatever was generated."""
    apart: List[float] = []
    for one, other in zip(found, alone):
        for x, y, a, b in zip(one.tokens, other.tokens, one.logprobs, other.logprobs):
            if x == y:
                apart.append(a - b)
            elif not given:
                break
    line = Line(question, "same", len(alone), tokens=len(apart))
    alike = [x.tokens == y.tokens and (given or x.text == y.text) for x, y in zip(found, alone)]
    line.same_bits = sum(same and x.logprobs == y.logprobs for same, x, y in zip(alike, found, alone))
    line.same_tokens = sum(alike)
    if not any(x.tokens for x in alone):
        return Line(question, note="the answers have no tokens")
    if apart:
        line.largest = max(map(abs, apart))
        line.mean = math.fsum(map(abs, apart)) / len(apart)
        line.kl = math.fsum(math.expm1(d) - d if d < 700 else math.inf for d in apart) / len(apart)
    if line.same_bits < line.answers:
        line.verdict = "differ"
    elif doubt:
        line.verdict = "unverified"
    line.note = "; ".join(x for x in (doubt, note) if x)
    return line


class Questions:
    """The questions to one server, each a method that returns a Line or raises Failed."""

    def __init__(self, server: Server, prompts: int, at_once: int, tokens: int, seed: int):
        self.server, self.at_once, self.tokens, self.draw = server, at_once, tokens, random.Random(seed)
        self.prompts = [[*server.fresh(), *server.draw(self.draw, 5 + 7 * (i % 32))] for i in range(prompts)]
        self.few = max(1, prompts // 4)  # for questions with many or long requests
        self.alone = self.in_turn()

    def in_turn(self) -> List[Answer]:
        return [self.server.answer(prompt, self.tokens) for prompt in self.prompts]

    def together(self, prompts: Sequence[Sequence[Unit]]) -> List[Answer]:
        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as threads:
            return list(threads.map(lambda prompt: self.server.answer(prompt, self.tokens), prompts))

    @staticmethod
    def taken(found: Sequence[Answer]) -> str:
        cached = sum(x.cached or 0 for x in found)
        return f"{cached} of {sum(x.prompt for x in found)} prompt tokens came from the server's cache" if cached else ""

    def replay(self) -> Line:
        found = self.in_turn()
        return compare("replay", found, self.alone, note=self.taken(found))

    def shuffled(self) -> Line:
        order = self.draw.sample(range(len(self.prompts)), len(self.prompts))
        found = dict(zip(order, self.together([self.prompts[i] for i in order])))
        return compare("shuffled", [found[i] for i in range(len(self.prompts))], self.alone, note=self.taken([*found.values()]))

    def batch(self) -> Line:
        others = [[*self.server.fresh(), *self.server.draw(self.draw, 60)] for _ in range(self.at_once - 1)]
        half = len(others) // 2
        longest = max(range(len(self.prompts)), key=lambda i: len(self.prompts[i]))
        found = self.together([*others[:half], self.prompts[longest], *others[half:]])[half:half + 1]
        return compare("batch", found, self.alone[longest:longest + 1], note=self.taken(found))

    def cached(self) -> Line:
        nothing = f"the server took nothing from a cache for prompts of {self.server.beginning} tokens that it had read"
        if self.server.says_cached and not self.server.caches:
            return Line("cached", note=nothing)
        whole, found = [], []
        for _ in range(self.few):
            prompt = [*self.server.fresh(), *self.server.draw(self.draw, self.server.beginning + 20)]
            whole.append(self.server.answer(prompt, self.tokens))
            self.server.ask(prompt, self.tokens)  # for the cache
            found.append(self.server.ask(prompt, self.tokens))
        doubt = ""
        if not self.server.says_cached:
            doubt = "the server does not say whether it took anything from a cache"
        elif all((x.cached or 0) <= (y.cached or 0) for x, y in zip(found, whole)):
            return Line("cached", note=nothing)
        return compare("cached", found, whole, doubt=doubt, note=self.taken(found))

    def prefill(self) -> Line:
        if self.server.path != "/completions":
            raise Refused("chats give no log-probabilities of prompts")
        said: List[str] = []
        pairs = [(prompt, answer) for prompt, answer in zip(self.prompts[:self.few], self.alone) if answer.tokens and not answer.hides]
        for name, method in PREFILL:
            try:
                read = [(method(self.server, prompt, answer), answer) for prompt, answer in pairs]
            except Refused as why:
                said.append(f"{name}: {why}")
                continue
            found, used = [x for x, _ in read if x], [y for x, y in read if x]
            if not found:
                said.append(f"{name}: each text has other tokens as a prompt" if pairs else "the answers have no tokens, or not all")
                continue
            doubt = self.taken(found)
            if not doubt and name == "beginnings" and not self.server.whole and not self.server.says_cached:
                doubt = "the server may have taken the texts from a cache"
            return compare("prefill", found, used, given=True, doubt=doubt, note=f"by {name}")
        raise Refused("; ".join(dict.fromkeys(said)))

    def drafts(self, other: Server) -> Line:
        if (other.path, other.ids) != (self.server.path, self.server.ids):
            raise Failed("the two servers have not the same interface")
        found = [other.answer(prompt, self.tokens) for prompt in self.prompts]
        drafted = [x.drafted for x in found if x.drafted is not None]
        note = f"{sum(drafted)} tokens were drafted" if drafted else "the second server does not say how much it drafted"
        return compare("drafts", found, self.alone, note=note)


def table(lines: Sequence[Line]) -> str:
    rows = [("", "same bits", "same tokens", "max |dlogp|", "mean |dlogp|", "KL", "")]
    for x in lines:
        if x.verdict == "not asked":
            rows.append((x.question, "not asked", "", "", "", "", ""))
        else:
            rows.append((x.question, f"{x.same_bits} of {x.answers}", f"{x.same_tokens} of {x.answers}", f"{x.largest:.2g}",
                         f"{x.mean:.2g}", f"{x.kl:.2g}", "unverified" if x.verdict == "unverified" else ""))
    widths = [max(len(row[i]) for row in rows) for i in range(7)]
    text = ["  ".join((row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in range(1, 7)))).rstrip() for row in rows]
    return "\n".join(text + [f"{x.question}: {x.note}" for x in lines if x.note])


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measure(asked: argparse.Namespace) -> Tuple[str, List[Line]]:
    """What the server can do, and a line for each question."""
    names = ["replay", "shuffled", "batch", "cached", "prefill"] + ["drafts"] * bool(asked.drafts_url)
    server = Server(Client(asked.url, asked.api_key, asked.timeout), asked.model)
    progress(server.about())
    progress(f"{asked.prompts} prompts, one after another")
    questions = Questions(server, asked.prompts, asked.at_once, asked.tokens, asked.seed)
    lines = []
    for name in names:
        progress(name)
        try:
            if name == "drafts":
                lines.append(questions.drafts(Server(Client(asked.drafts_url, asked.api_key, asked.timeout), asked.model)))
            else:
                lines.append(getattr(questions, name)())
        except Failed as why:
            lines.append(Line(name, note=str(why)))
    return server.about(), lines


def arguments(given: Optional[Sequence[str]]) -> argparse.Namespace:
    def number(least: int) -> Callable[[str], int]:
        def read(text: str) -> int:
            if not text.isascii() or not text.isdigit() or not least <= int(text) <= 1 << 20:
                raise argparse.ArgumentTypeError(f"{text!r}: numbers from {least} to {1 << 20} are allowed")
            return int(text)
        return read

    def seconds(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = 0
        if not 0 < value <= 1e6:
            raise argparse.ArgumentTypeError(f"{text!r}: seconds above 0, at most 1000000, are allowed")
        return value

    def url(text: str) -> str:
        try:
            parts = urllib.parse.urlsplit(text)
            good = bool(parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not parts.query + parts.fragment)
        except ValueError:
            good = False
        if not good or not text.isascii() or not text.isprintable() or " " in text:
            raise argparse.ArgumentTypeError(f"{text!r}: a URL such as http://127.0.0.1:8000/v1 is allowed")
        return text

    def key(text: str) -> str:
        if not text.isascii() or not text.isprintable():
            raise argparse.ArgumentTypeError("the key has characters that are not printable ASCII")
        return text

    parser = argparse.ArgumentParser(prog="python -m gdn.exactness", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", type=url, required=True, help="where the server's interface is, with /v1")
    parser.add_argument("--model", help="its model (default: the first of /v1/models)")
    parser.add_argument("--drafts-url", type=url, metavar="URL", help="a second server of the same model that uses drafts")
    parser.add_argument("--api-key", type=key, metavar="KEY", default=os.environ.get("OPENAI_API_KEY") or None,
                        help="a key for both servers (default: the environment's OPENAI_API_KEY, which other users cannot see)")
    parser.add_argument("--prompts", type=number(1), default=32, metavar="N",
                        help="default %(default)s; cached and prefill take a quarter of them")
    parser.add_argument("--at-once", type=number(2), default=64, metavar="N",
                        help="requests at once of the question batch (default %(default)s)")
    parser.add_argument("--tokens", type=number(1), default=16, metavar="N", help="tokens of an answer (default %(default)s)")
    parser.add_argument("--seed", type=number(0), default=1, metavar="N",
                        help="of the prompts, all but their first words (default %(default)s)")
    parser.add_argument("--timeout", type=seconds, default=300, metavar="SECONDS",
                        help="for an answer (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    return parser.parse_args(given)


def main(given: Optional[Sequence[str]] = None) -> int:
    asked = arguments(given)
    try:
        about, lines = measure(asked)
    except Failed as why:
        print(f"gdn.exactness: {why}", file=sys.stderr)
        return 2
    if asked.json:
        print(json.dumps({"server": about, "seed": asked.seed, "questions": [dataclasses.asdict(x) for x in lines]}, indent=1))
    else:
        print(table(lines))
    verdicts = {x.verdict for x in lines}
    return 1 if "differ" in verdicts else 0 if verdicts == {"same"} else 2


if __name__ == "__main__":
    sys.exit(main())
