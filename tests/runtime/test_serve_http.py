#!/usr/bin/env python3
"""gdn serve as an HTTP server: heads of requests, connections, clients that close one side, large answers, silence.

    test_serve_http.py GDN FOLDER [--brief]   as test_run.py. GDN_TEST_CLOCK: a library that sets the time, to be preloaded
"""
import contextlib
import json
import multiprocessing
import os
import random
import re
import resource
import signal
import socket
import subprocess
import threading
import time

from server import PROMPT, WAIT, Server, joined, refused, server
from tool import BRIEF, MODEL, TOOL, require, run_tests

COMPLETIONS, CHATS = "/v1/completions", "/v1/chat/completions"
LONG = {"prompt": PROMPT, "max_tokens": 4000, "ignore_eos": True, "temperature": 1, "seed": 1}


def sent(s, data, half=False, wait=0.0):
    """All that the server answers, and whether it ends that by a reset."""
    got = b""
    with socket.create_connection(("127.0.0.1", s.port), timeout=WAIT) as c:
        c.sendall(data)
        time.sleep(wait)
        try:
            if half:
                c.shutdown(socket.SHUT_WR)
            while more := c.recv(1 << 16):
                got += more
        except ConnectionError:
            return got, True
    return got, False


def request(path, body, version="1.1", head=""):
    text = json.dumps(body)
    return f"POST {path} HTTP/{version}\r\nHost: localhost\r\n{head}Content-Length: {len(text)}\r\n\r\n{text}".encode()


def answers(got):
    """Status, head and body of each answer; the body is None if it has no end."""
    made = []
    while got:
        head, _, got = got.partition(b"\r\n\r\n")
        body = b""
        if length := re.search(rb"(?i)\r\ncontent-length: *([0-9]+)", head):
            body, got = got[:int(length[1])], got[int(length[1]):]
        elif b"chunked" in head:
            while (size := re.match(rb"([0-9A-Fa-f]+)\r\n", got)) and int(size[1], 16):
                at = size.end() + int(size[1], 16)
                body, got = body + got[size.end():at], got[at + 2:]
            body, got = (body, got[5:]) if got.startswith(b"0\r\n\r\n") else (None, b"")
        elif not head.startswith(b"HTTP/1.1 204"):
            body, got = got, b""
        made.append((int(head[9:12]), head.decode(), body))
    return made


def half_closed():
    """A client that closes its sending side after the request gets its whole answer."""
    draw = random.Random(1)
    with server("--parallel", "2") as s:
        kinds = [(COMPLETIONS, {"prompt": PROMPT, "max_tokens": 50}), (COMPLETIONS, {"prompt": PROMPT, "max_tokens": 20, "n": 3, "temperature": 1, "seed": 1, "logprobs": 2}),
                 (CHATS, {"messages": [{"role": "user", "content": "Who was Moses?"}], "max_tokens": 50, "seed": 1})]
        for path, body in kinds:
            want = s.ask(path, body)[1]["choices"]
            for _ in range(4 if BRIEF else 16):
                stream, version, wait = draw.random() < 0.5, draw.choice(("1.0", "1.1")), draw.choice((0, 0, 0.002, 0.02))
                got, reset = sent(s, request(path, {**body, "stream": stream}, version), True, wait)
                made = answers(got)
                require(len(made) == 1 and made[0][0] == 200 and made[0][2] and not reset, f"half-closed after {wait} s, HTTP/{version}, stream {stream}: {got[:300]}")
                if not made or not made[0][2]:
                    continue
                if not stream:
                    require(json.loads(made[0][2])["choices"] == want, f"a whole answer: {made[0][2][:300]}")
                    continue
                lines = [line for line in made[0][2].decode().split("\n") if line and line[0] != ":"]
                events = [json.loads(line[6:]) for line in lines[:-1]]
                of = "text" if path == COMPLETIONS else "content"
                texts = [(c["text"] if of == "text" else c["message"]["content"], c["finish_reason"]) for c in want]
                require(lines[-1] == "data: [DONE]" and [joined(events, i, of) for i in range(len(want))] == texts, f"a whole stream: {lines[-3:]}")
        for body in ({}, {"prompt": "x", "grammar": "x"}):
            made = answers(sent(s, request(COMPLETIONS, body), True)[0])
            require([m[0] for m in made] == [400], f"a refusal: {made}")
        both = answers(sent(s, request(*kinds[0]) * 2, True)[0])
        require([m[0] for m in both] == [200, 200] and all(json.loads(m[2])["choices"] for m in both), f"two requests at once: {both}")


def half_closed_then_gone():
    """Such a client is still noticed when it goes away, while its text is generated and while that waits."""
    with server("--parallel", "1") as s:
        for stream in (True, False):
            before = s.metric("texts_cancelled_total")
            clients = []
            for _ in range(2):
                clients.append(socket.create_connection(("127.0.0.1", s.port), timeout=WAIT))
                clients[-1].sendall(request(COMPLETIONS, {**LONG, "n": 4, "stream": stream}))
                clients[-1].shutdown(socket.SHUT_WR)
            require(s.until("texts_waiting", lambda n: n == 7), "they wait")
            require(all(c.recv(12) == b"HTTP/1.1 200" for c in clients), "they get the head")
            for c in clients:
                c.close()
            require(s.until("texts_cancelled_total", lambda n, b=before: n == b + 8), f"cancelled, stream {stream}: {s.metric('texts_cancelled_total') - before}")


def cut_means_failure():
    """An answer that ends early has no end: the second signal ends the server in the middle of both forms of answers."""
    for stream in (True, False):
        s = Server("--parallel", "1")
        with socket.create_connection(("127.0.0.1", s.port), timeout=WAIT) as c:
            c.sendall(request(COMPLETIONS, {**LONG, "n": 20, "stream": stream}))
            c.shutdown(socket.SHUT_WR)
            got = c.recv(1000)
            for _ in range(2):
                s.process.send_signal(signal.SIGTERM)
                time.sleep(0.3)
            with contextlib.suppress(ConnectionError):
                while more := c.recv(1 << 16):
                    got += more
        s.process.communicate(timeout=WAIT)
        require(answers(got)[0][2] is None and b"[DONE]" not in got, f"stream {stream}: {got[-200:]}")


# ---- Heads of requests ----

HIDDEN = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
BODY = b'{"content": "a"}'


def is_refused(got):
    """The server's answer and its end. libmicrohttpd 0.9.75 writes the head of some of its own errors twice."""
    return re.match(rb"HTTP/1.1 (400|413) ", got) and b"\r\nConnection: close\r\n" in got.split(b"\r\n\r\n")[0] + b"\r\n" and got.count(b"\r\n\r\n") < 3 and b"gdn_requests_total" not in got


def framing():
    """What RFC 9112 refuses gets 400 and a closed connection, and nothing behind it runs."""
    n = len(BODY)
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (n, BODY)
    line, host = b"POST /tokenize HTTP/1.1\r\n", b"Host: localhost\r\n"
    length, coding = b"Content-Length: %d\r\n" % n, b"Transfer-Encoding: chunked\r\n"
    good = [line + host + length + b"\r\n" + BODY, line + host + coding + b"\r\n" + chunked, line + host + b"Transfer-Encoding:CHUNKED\r\n\r\n" + chunked, line + host + b"A:\r\nB: \t x \r\n" + length + b"\r\n" + BODY,
            b"POST http://localhost/tokenize?x=1&y HTTP/1.1\r\n" + host + length + b"\r\n" + BODY, b"\r\n" + line + host + length + b"\r\n" + BODY, b"POST /%74okenize? HTTP/1.1\r\n" + host + length + b"\r\n" + BODY]
    bad = [b"GET /health HTTP/1.1\r\n\r\n", b"GET /health HTTP/1.1\r\n" + host + b"A: x\0y\r\n\r\n", line + host + b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(HIDDEN),
           line + host + b"Content-Length: 2\r\n" + b"Content-Length: %d\r\n\r\n" % n + BODY, line + host + length + length + b"\r\n" + BODY, line + host + b"Content-Length: 0\r\n" + length + b"\r\n" + BODY,
           line + host + length + coding + b"\r\n" + chunked, line + host + coding + b"Content-Length: %d\r\n\r\n" % (5 + len(HIDDEN)) + b"0\r\n\r\n",
           *(line + host + b"Content-Length: " + value + b"\r\n\r\n" + BODY for value in (b"+16", b"-1", b"16,16", b"16 16", b"0x10", b"", b"16;", b"99999999999999999999999")),
           *(line + host + b"Transfer-Encoding: " + value + b"\r\n\r\n" + chunked for value in (b"xchunked", b"gzip, chunked", b"chunked, chunked", b"identity", b"chunked;", b"\x0bchunked", b"")),
           line + host + b"Transfer-Encoding: identity\r\n" + coding + b"\r\n" + chunked, line + host + coding + coding + b"\r\n" + chunked, line + host + b"Content-Length : %d\r\n\r\n" % n + BODY,
           line.replace(b"1.1", b"1.0") + host + coding + b"\r\n" + chunked,
           line + length + b"\r\n" + BODY, line + host + host + length + b"\r\n" + BODY, line + host + b"A: x\0y\r\n" + length + b"\r\n" + BODY, line + b"Host: localhost\0.example\r\n" + length + b"\r\n" + BODY, line + host + length[:-2] + b"\0z\r\n\r\n" + BODY,
           line + host + length + b"A: x\0\0\0\0y\r\n\r\n" + BODY, line + host + length + b"A: x\0\r\n\r\n" + BODY,
           line + host + b"A: x\ry\r\n" + length + b"\r\n" + BODY, line + host + b"A: x\rContent-Length: 3\r\n" + length + b"\r\n" + BODY, line + host + b"A: x\r\n y\r\n" + length + b"\r\n" + BODY, line + host + length[:-2] + b"\n\r\n" + BODY,
           line + host + b"A b: x\r\n" + length + b"\r\n" + BODY, line + host + b"A(: x\r\n" + length + b"\r\n" + BODY, line + host + b": x\r\n" + length + b"\r\n" + BODY, line + host + b"A: x\x01\r\n" + length + b"\r\n" + BODY,
           b"POST /tokenize\0x HTTP/1.1\r\n" + host + length + b"\r\n" + BODY, b"POST /tokenize?\0 HTTP/1.1\r\n" + host + length + b"\r\n" + BODY, b"PO(ST /tokenize HTTP/1.1\r\n" + host + length + b"\r\n" + BODY]
    with server() as s:
        for head in good:
            made = answers(sent(s, head + HIDDEN)[0])
            require([m[0] for m in made] == [200, 200] and "gdn_requests_total" in (made[1][2] or b"").decode(), f"allowed: {head}: {made}")
        for head in bad:
            got, _ = sent(s, head + HIDDEN)
            require(is_refused(got), f"refused: {head}: {got[:300]}")
        drawn_heads(s, chunked)
        for target, status in ((b"http://localhost/v1/models", 200), (b"HTTP://127.0.0.1:1/health", 200), (b"http://localhost", 200), (b"http://localhost?x", 200), (b"http://example.org/health", 403), (b"http:///health", 404), (b"https://localhost/health", 404), (b"*", 404),
                               (b"/health%00", 400), (b"/he%61lth%00x", 400), (b"http://localhost/health%00", 400), (b"/health?%00", 200), (b"/he%61lth", 200)):
            made = answers(sent(s, b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")[0])
            require(target == b"http:///health" or [m[0] for m in made] == [status], f"the target {target}: {made}")
        require(answers(sent(s, b"GET http://localhost/health HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n")[0])[0][0] == 200, "the target's host counts")
        require(answers(sent(s, b"GET /health HTTP/1.0\r\n\r\n")[0])[0][0] == 200, "HTTP/1.0 without Host")


def drawn_heads(s, chunked):
    """Combinations: each head is refused if one of its parts, or two together, are."""
    draw = random.Random(2)
    seen = {True: 0, False: 0}
    for _ in range(60 if BRIEF else 1000):
        lengths, codings, hosts = draw.choice(((1,), (1,), (0, 1), (1, 1), ())), draw.choice(((), (), ("chunked",), ("chunked", "x"), ("Chunked",), ("x",))), draw.choice((1, 1, 1, 1, 0, 2))
        version = draw.choice(("1.1", "1.1", "1.1", "1.0"))
        lines = [b"Host: localhost"] * hosts + [b"Content-Length: %d" % (len(BODY) if draw.random() < 0.8 else draw.randrange(20)) for _ in range(sum(lengths))] + [b"Transfer-Encoding: " + c.encode() for c in codings]
        lines += [draw.choice((b"A: x", b"B:", b"Accept: */*", b"Cookie: a=b; c", b"User-Agent: \xff y"))] * draw.randrange(3)
        draw.shuffle(lines)
        head = b"\r\n".join([b"POST /tokenize HTTP/" + version.encode(), *lines, b"", b""])
        dirty = draw.random() < 0.3
        if dirty:  # in the value of a field
            at = draw.choice([m.end() for m in re.finditer(rb": ?", head)] or [0])
            head = head[:at] + draw.choice((b"\0", b"\r", b"\0x", b"x\ry", b"\0\0\0\0\0x", b"\x7f", b"\n")) + head[at:]
            dirty = at > 0
        n_length = sum(lengths)
        bad = dirty or n_length > 1 or len(codings) > 1 or (n_length and codings) or hosts > 1 or (version == "1.1" and not hosts) or (codings and (codings[0].lower() != "chunked" or version == "1.0"))
        got, _ = sent(s, head + (chunked if codings else BODY if n_length else b"") + HIDDEN, half=True)
        seen[bool(bad)] += 1
        if bad:
            require(is_refused(got), f"refused: {head}: {got[:300]}")
        else:
            made = answers(got)
            require(made and (made[0][0] == 200 or b"invalid_json" in made[0][2] or n_length), f"allowed: {head}: {got[:300]}")
    require(min(seen.values()) > 5, f"both kinds: {seen}")


def preflights():
    """A page of an allowed origin may send the headers that it asks for."""
    with server("--origin", "https://example.org") as s:
        ask = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
        for asked, allowed in (("x-stainless-os, x-stainless-lang,authorization", None), ("x-title", None), ("", "Authorization, Content-Type"), ("a:b", "Authorization, Content-Type"), ("a b\tc", "Authorization, Content-Type")):
            for path in (COMPLETIONS, CHATS, "/v1/models"):
                status, text, response = s.ask(path, method="OPTIONS", headers={**ask, "Access-Control-Request-Headers": asked})
                vary = ", ".join(response.headers.get_all("Vary"))
                require((status, text, response.getheader("Access-Control-Allow-Headers")) == (204, "", allowed or asked), f"headers {asked}: {status} {response.headers}")
                require(int(response.getheader("Access-Control-Max-Age")) >= 600 and all(name in vary for name in ("Origin", "Access-Control-Request-Headers", "Access-Control-Request-Method")), f"what it depends on: {vary}")
        for method, allowed in (("PUT", "PUT"), ("POST", "POST"), ("P T", "P, T"), ("(", "GET, POST")):
            got = s.ask(COMPLETIONS, method="OPTIONS", headers={**ask, "Access-Control-Request-Method": method})[2].getheader("Access-Control-Allow-Methods")
            require(got == allowed or (method == "P T" and got == "P T"), f"the method {method}: {got}")
        _, response = refused(s, 403, None, None, COMPLETIONS, method="OPTIONS", headers={**ask, "Origin": "https://example.com", "Access-Control-Request-Headers": "x-title"})
        require(response.getheader("Access-Control-Allow-Headers") is None, "other origins may nothing")


# ---- Connections ----

PARTS = {"silent": b"", "idle": b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", "line": b"GE", "head": b"GET /health HTTP/1.1\r\nHost: localhost\r\nA: ", "body": b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"}


def attack(port, n, kinds, seconds):
    """n connections that are always open: silent, kept after a request, or with a byte a second."""
    draw = random.Random(3)
    clients = {}

    def connect(kind):
        c = socket.socket()
        c.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            c.connect(("127.0.0.1", port))
        clients[c] = [kind, 0, time.monotonic() + draw.random()]
    for i in range(n):
        connect(kinds[i % len(kinds)])
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for c, state in list(clients.items()):
            try:
                if not state[1] and PARTS[state[0]]:
                    c.send(PARTS[state[0]])
                    state[1] = 1
                elif state[0] in ("line", "head", "body") and time.monotonic() > state[2]:
                    c.send(b"x")
                    state[2] += 1
                if not c.recv(4096):
                    raise ConnectionError
            except BlockingIOError:
                pass
            except OSError:
                c.close()
                del clients[c]
                connect(state[0])
        time.sleep(0.002)


def crowds():
    """500 idle connections shut out no client."""
    body = {"prompt": PROMPT, "max_tokens": 20}
    for options, kinds, seconds in ((("--connections", "80"), ("silent", "idle", "line", "head", "body"), 5 if BRIEF else 60), (("--connections", "80"), ("body",), 3), (("--connections", "80"), ("idle",), 3), ((), ("silent", "idle", "line", "head", "body"), 3)):
        with server(*options) as s:
            want = s.text(body)
            hostile = multiprocessing.Process(target=attack, args=(s.port, 500, kinds, seconds + 2))
            hostile.start()
            time.sleep(1)
            end, times = time.monotonic() + seconds, []
            while time.monotonic() < end:
                begin = time.monotonic()
                try:
                    status = s.ask("/health")[0]
                    times.append(time.monotonic() - begin)
                    require((status, s.text(body)) == (200, want), f"{options} {kinds}: {status}")
                except (OSError, KeyError) as error:
                    require(False, f"{options} {kinds}: {error!r}")
                time.sleep(0.05)
            require(hostile.is_alive(), "they were there")
            hostile.join()
            mean = sum(times) / max(len(times), 1)
            print(f"{options} {kinds}: {len(times)} answers of /health, on average after {mean:.3f} s, at most {max(times, default=0):.3f} s")
            require(times and mean < 1, f"/health comes within a second: {mean}")


def kept_open(s, what="idle"):
    c = socket.create_connection(("127.0.0.1", s.port), timeout=WAIT)
    c.sendall(PARTS[what])
    require(what != "idle" or c.recv(1000).startswith(b"HTTP/1.1 200"), "a new client is answered")
    return c


def is_closed(c, wait=0):
    """True if the server closes the connection, within the time."""
    c.settimeout(wait or 0.001)
    try:
        return c.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def pools():
    """Connections that are kept make room for new ones: the longest idle first, then incomplete requests; those with a request stay."""
    with server("--connections", "8", "--timeout", "600", "--queue", "100") as s:
        streams = [s.open(COMPLETIONS, {**LONG, "n": 2, "seed": i, "stream": True}) for i in range(4)]
        kept = [kept_open(s) for _ in range(15)]
        time.sleep(0.5)  # one after another for the server's threads too
        kept += [kept_open(s) for _ in range(15)]
        end = time.monotonic() + WAIT
        while len(remain := [i for i, c in enumerate(kept) if not is_closed(c)]) > 4 and time.monotonic() < end:
            time.sleep(0.05)
        require(len(remain) == 4 and remain[0] >= 15, f"no more than 8 remain, the last: {remain}")
        for c in kept:
            c.close()
        time.sleep(0.5)
        waiting = []
        for what in ("body", "head", "idle", "idle"):
            waiting.append(kept_open(s, what))
            time.sleep(1)
        time.sleep(0.5)
        waiting[2].sendall(PARTS["idle"])  # then the last is the longest idle
        waiting[2].settimeout(WAIT)
        waiting[2].recv(1000)
        time.sleep(1.5)
        for i in (3, 2, 0, 1):
            waiting.append(kept_open(s))
            require(is_closed(waiting[i], WAIT), f"connection {i} is the next")
            left = [j for j in (3, 2, 0, 1)[(3, 2, 0, 1).index(i) + 1:] if is_closed(waiting[j])]
            require(not left, f"{left} go after {i}")
        require(not any(is_closed(connection.sock) for connection, _ in streams), "requests go on")
        for c in (*waiting, *(part for both in streams for part in reversed(both))):
            c.close()


def too_many():
    """Where all connections have requests, others get 503, and /health answers."""
    with server("--connections", "3", "--parallel", "1", "--queue", "100") as s:
        clients = [s.open(COMPLETIONS, {**LONG, "stream": True}) for _ in range(3)]
        got = []
        several = [threading.Thread(target=lambda: got.append(refused(s, 503, None, {"prompt": "x", "max_tokens": 1}))) for _ in range(20)]
        for thread in several:
            thread.start()
        for thread in several:
            thread.join()
        require(len(got) == 20 and all(error["code"] == "too_many_connections" and int(response.getheader("Retry-After")) > 0 and response.getheader("Connection") == "close" for error, response in got), f"503, never a reset: {got}")
        require(all(s.ask("/health")[0] == 200 for _ in range(20)), "/health has room")
        for connection, response in clients:
            response.close()
            connection.close()
        end = time.monotonic() + WAIT
        while s.ask(COMPLETIONS, {"prompt": "x", "max_tokens": 1})[0] != 200 and time.monotonic() < end:
            time.sleep(0.05)
        require(s.ask(COMPLETIONS, {"prompt": "x", "max_tokens": 1})[0] == 200, "there is room again")
    few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (600, 600))
    for arguments, says, status in ((("--connections", "-1"), b"--connections is -1", 2), (("--connections", "65537"), b"--connections is 65537", 2), (("--connections", "289"), b"--connections is 289; the limit of open files (ulimit -n) allows 288", 1)):
        done = subprocess.run([TOOL, "serve", "-m", MODEL, "--port", "0", *arguments], capture_output=True, timeout=WAIT, check=False, preexec_fn=few)
        require(done.returncode == status and says in done.stderr, f"{arguments}", done)


# ---- Answers and time ----


def resident(s, name="VmRSS"):
    with open(f"/proc/{s.process.pid}/status", encoding="ascii") as f:
        return int(f.read().split(f"{name}:")[1].split()[0])


def large_answers():
    """Log-probabilities of many texts are written in parts, and are those of a stream."""
    with server("--parallel", "16", settings=("--ctx", "512", "--prefix-cache", "0")) as s:
        for path, body in ((COMPLETIONS, {"prompt": PROMPT, "logprobs": 20}), (CHATS, {"messages": [{"role": "user", "content": "x"}], "logprobs": True, "top_logprobs": 20})):
            for n in (1, 16):
                body |= {"n": n, "max_tokens": 30 if BRIEF or n == 1 else 300, "ignore_eos": True, "temperature": 1, "seed": 1}
                before = resident(s)
                status, answer, response = s.ask(path, body)
                grown = resident(s, "VmHWM") - before
                require(status == 200 and len(answer["choices"]) == n, f"{path} n {n}: {status}")
                require((response.getheader("Content-Length") is None) == (n > 1 and not BRIEF), f"parts of a large answer only: {response.headers}")
                require(BRIEF or grown < 60000, f"memory for {path} n {n}: {grown} KiB more")
                events, done = s.events(path, body)
                for choice in answer["choices"]:
                    parts = [c["logprobs"] for e in events for c in e["choices"] if c["index"] == choice["index"] and c["logprobs"]]
                    require(done and {k: [x for part in parts for x in part[k]] for k in parts[0]} == choice["logprobs"], f"streamed: {path} {n}")


def silence():
    """A stream that waits has comments; an answer that is no stream has nothing before it."""
    with server("--parallel", "1", "--queue", "100") as s:
        first = s.open(COMPLETIONS, {**LONG, "n": 50, "stream": True})  # more than any processor ends in this time
        for body in ({"prompt": PROMPT, "max_tokens": 3, "stream": True}, {"prompt": PROMPT, "max_tokens": 3}):
            with socket.create_connection(("127.0.0.1", s.port), timeout=WAIT) as c:
                c.sendall(request(COMPLETIONS, body))
                got = b""
                if body.get("stream"):
                    while got.count(b"\n: waiting\n\n") < 2 and b"data:" not in got:
                        got += c.recv(1000)
                    require(got.count(b"\n: waiting\n\n") >= 2 and b"data:" not in got, f"comments: {got}")
                else:
                    c.settimeout(7)
                    try:
                        require(False, f"a byte before the answer: {c.recv(1000)}")
                    except TimeoutError:
                        pass
        require(s.metric("texts_waiting") > 0, "the first request has kept the others waiting")
        first[1].close()
        first[0].close()


def clock():
    """Whatever happens to the system's time, a signal ends an idle server."""
    if "GDN_TEST_CLOCK" not in os.environ:
        return
    os.environ["LD_PRELOAD"] = os.environ["GDN_TEST_CLOCK"]
    s = Server()
    del os.environ["LD_PRELOAD"]
    with open(f"/proc/{s.process.pid}/maps", encoding="ascii") as f:
        require("clock_ahead" in f.read(), "the time is set")
    time.sleep(0.3)
    s.process.send_signal(signal.SIGTERM)
    try:
        require(s.process.wait(20) == -signal.SIGTERM, "the end")
    except subprocess.TimeoutExpired:
        require(False, "a signal ends the server within 20 s")
        s.process.kill()
    s.process.communicate()


run_tests(half_closed, half_closed_then_gone, cut_means_failure, framing, preflights, pools, too_many, crowds, large_answers, silence, clock)
