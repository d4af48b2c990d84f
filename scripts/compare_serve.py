#!/usr/bin/env python3
"""Requests a second and the time to the first token of an OpenAI server on this machine, with 1, 4, 8 and 32 at once.

    compare_serve.py [--brief] PORT COMMAND...     starts the server, asks it, and ends it; --brief: a quarter of the requests

For instance `compare_serve.py 8131 build/bin/gdn serve -m FILE --port 8131 --parallel 32 --ctx 512`, and in turn
`compare_serve.py 8132 llama-server -m FILE --port 8132 -np 32 -c 16384 --no-repack`. Each request has 60 words and wants 64 tokens,
streamed. No request has the beginning of another, so no cache of prefixes helps.
"""
import concurrent.futures
import http.client
import json
import random
import statistics
import subprocess
import sys
import time

WORDS = "In the beginning God created the heaven and the earth And the earth was without form and void and darkness".split()


def ready(port):
    for _ in range(300):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit(f"no server at port {port}")


def ask(port, i):
    """Seconds to the first token and to the last."""
    words = random.Random(i)
    prompt = " ".join([str(i)] + [words.choice(WORDS) for _ in range(60)])
    begin, first = time.perf_counter(), None
    body = {"prompt": prompt, "max_tokens": 64, "temperature": 0, "stream": True, "ignore_eos": True}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    for line in connection.getresponse():
        if first is None and line.startswith(b"data: {"):
            first = time.perf_counter() - begin
    return first, time.perf_counter() - begin


def main():
    brief = sys.argv[1:2] == ["--brief"]
    if brief:
        del sys.argv[1]
    if len(sys.argv) < 3 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    port, asked = int(sys.argv[1]), 0
    server = subprocess.Popen(sys.argv[2:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        ready(port)
        ask(port, 9999)
        print("| at once | requests/s | first token, ms | whole, ms |\n|---|---|---|---|")
        for at_once, n in ((1, 4), (4, 12), (8, 16), (32, 32)) if brief else ((1, 16), (4, 48), (8, 64), (32, 128)):
            begin = time.perf_counter()
            with concurrent.futures.ThreadPoolExecutor(at_once) as threads:
                given = list(threads.map(lambda i: ask(port, i), range(asked, asked + n)))
            took = time.perf_counter() - begin
            asked += n
            first, whole = (1000 * statistics.median(x[i] for x in given) for i in (0, 1))
            print(f"| {at_once} | {n / took:.1f} | {first:.0f} | {whole:.0f} |", flush=True)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
