#!/usr/bin/env python3
"""Plot the results of `gdn bench --json FILE`: shares of the roofline, and ggml's times divided by ours.

Writes <prefix>roofline_share.<format> and, if ggml was measured, <prefix>ggml_ratio.<format>.
Needs matplotlib.
"""
import argparse
import json
import math
import pathlib
import sys


def load(path):
    """The context, and the measured rows."""
    with (sys.stdin if path == "-" else open(path, encoding="utf-8")) as file:
        data = json.load(file)
    rows = [r for r in data["benchmarks"] if not r.get("error_occurred") and r.get("real_time")]
    return data["context"], rows


def label(row):
    """'decode 8 seqs' of 'gated_delta_net/decode/seqs:8/threads:1', without the number of threads."""
    parts = row["name"].split("/")
    return " ".join([parts[0], parts[1]] + [f"x{p[5:]}" for p in parts[2:] if p.startswith("seqs:")])


def bars(plt, rows, fields, title, axis, reference, path):
    """Horizontal bars: a group per case, a bar per number of threads and field."""
    cases = list(dict.fromkeys(label(r) for r in rows))
    series = [(t, f) for t in sorted({r["threads"] for r in rows}) for f in fields]
    value = {(label(r), r["threads"], f): r.get(f) for r in rows for f in fields}
    height = 0.8 / len(series)
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.2 * len(cases) * (1 + len(series))))
    for i, (threads, field) in enumerate(series):
        numbers = [value.get((c, threads, field)) for c in cases]
        places = [k + (i - (len(series) - 1) / 2) * height for k in range(len(cases))]
        widths = [math.nan if n is None else n for n in numbers]
        name = f"{threads} thread{'s' if threads > 1 else ''}" + (f", {fields[field]}" if fields[field] else "")
        drawn = axes.barh(places, widths, height=0.9 * height, label=name)
        texts = ["" if n is None else f"{n:.2f}" for n in numbers]
        axes.bar_label(drawn, labels=texts, padding=2, fontsize=7)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.text(1.0, -0.75, reference, fontsize=7, ha="center")
    axes.set_yticks(range(len(cases)), cases, fontsize=8)
    axes.set_ylim(len(cases) - 0.5, -1.1)
    axes.set_xlim(left=0)
    axes.margins(x=0.12)
    axes.set_xlabel(axis)
    axes.set_title(title, fontsize=9)
    axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.6 / figure.get_figheight()), ncols=len(series))
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
    print(path)


def main():
    default = pathlib.Path(__file__).resolve().parent.parent / "docs" / "benchmarks"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", help="what gdn bench --json wrote; - reads standard input")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=default, help="folder, default docs/benchmarks")
    parser.add_argument("-p", "--prefix", default="", help="begins the names of the files, e.g. epyc-9004-")
    parser.add_argument("-f", "--format", default="svg", choices=["svg", "png", "pdf"])
    parser.add_argument("--best", action="store_true", help="shares from the minima, for noisy machines")
    args = parser.parse_args()

    try:
        import matplotlib
    except ImportError:
        sys.exit("plot.py needs matplotlib (Debian: python3-matplotlib)")
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "gdn"  # the same file from the same data
    import matplotlib.pyplot as plt

    context, rows = load(args.json)
    args.output.mkdir(parents=True, exist_ok=True)
    about = f"{context['device']}, {context['backend']}, libgdn {context['library_version']}, {context['date'][:10]}"
    share = "roofline_share_best" if args.best else "roofline_share"
    shares = [r for r in rows if r.get(share) is not None]
    ratios = [r for r in rows if r.get("ggml_ratio") is not None]
    if not shares and not ratios:
        sys.exit("there is neither a roofline nor a ratio in this file")
    if shares:
        bars(plt, shares, {share: ""}, f"Share of the machine's own limit\n{about}", "roofline time / kernel time", "the limit",
             args.output / f"{args.prefix}roofline_share.{args.format}")
    if ratios:
        fields = {"ggml_ratio": "operator", "ggml_copy_ratio": "graph"}
        bars(plt, ratios, fields, f"Time of {context['peer']} over ours\n{about}", "ggml time / libgdn time", "equal",
             args.output / f"{args.prefix}ggml_ratio.{args.format}")


if __name__ == "__main__":
    main()
