#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""boot.py [--keep] <JOURNAL: the picture of a boot that joined a cluster, as SVG, from the journal of that boot.

    journalctl --boot --output=json | docs/boot.py --keep >docs/boot.json     what the picture needs, without names of the machine
    docs/boot.py <docs/boot.json >docs/boot.svg

docs/boot.json is the journal of a container with Debian 12 and a real control plane and kubelet, as tests/demo boots it.
"""

import json
import sys
from xml.sax.saxutils import escape

STARTING, DONE = "7d4958e842da4a758f6c1cdc7b36dcc5", "39f53479d3a045ac8e11786248231fbf"     # systemd's messages about a unit
FIELDS = ("MESSAGE", "MESSAGE_ID", "UNIT", "NODE_BOOTSTRAP_STAGE", "NODE_BOOTSTRAP_DURATION_USEC", "_SOURCE_REALTIME_TIMESTAMP")
WIDTH, LEFT, RIGHT = 900, 190, 880
LANES = {"systemd": 62, "install": 108, "join": 182, "cluster": 246}
COLOURS = {"systemd": "#6e7781", "install": "#8250df", "join": "#0969da"}
STAGES = [      # number, name, lane, what happens
    ("1", "network", "systemd", "the service waits for network-online.target, if it is part of the boot"),
    ("2", "discover", "join", "reads cluster-info without a credential, and verifies it by the token's signature and the pin"),
    ("3", "request", "join", "with the token, over verified TLS: checks that the name is free, submits the request"),
    ("4", "await", "join", "waits until the request is approved and the certificate is issued"),
    ("5", "install", "install", "verifies everything again, and writes kubelet's files, the kubeconfig last"),
    ("6", "kubelet", "systemd", "starts now, and not before"),
]


def entries(file):
    """The entries that the picture needs, with these fields alone."""
    for line in file:
        entry = {key: value for key, value in json.loads(line).items() if key in FIELDS}
        is_of_unit = entry.get("UNIT") in ("basic.target", "node-bootstrap.service", "kubelet.service") and entry.get("MESSAGE_ID") in (STARTING, DONE)
        if is_of_unit or "NODE_BOOTSTRAP_DURATION_USEC" in entry or entry.get("NODE_BOOTSTRAP_STAGE") == "install":
            yield entry


def moments(found):
    """Begin and end of each stage in milliseconds since the start of the service; and when `join` began to work."""
    def at(**fields):
        return next(int(e["_SOURCE_REALTIME_TIMESTAMP"]) for e in found if fields.items() <= e.items())

    def of_stage(name):
        return next(e for e in found if e.get("NODE_BOOTSTRAP_STAGE") == name)

    ends = {name: int(of_stage(name)["_SOURCE_REALTIME_TIMESTAMP"]) for name in ("discover", "request", "await", "handoff")}
    begun = ends["discover"] - int(of_stage("discover")["NODE_BOOTSTRAP_DURATION_USEC"])
    start = at(UNIT="node-bootstrap.service", MESSAGE_ID=STARTING)
    done, kubelet = at(UNIT="node-bootstrap.service", MESSAGE_ID=DONE), at(UNIT="kubelet.service", MESSAGE_ID=DONE)
    spans = {"network": (at(UNIT="basic.target", MESSAGE_ID=DONE), start), "start": (start, begun), "discover": (begun, ends["discover"]),
             "request": (ends["discover"], ends["request"]), "await": (ends["request"], ends["await"]), "install": (ends["handoff"], done),
             "kubelet": (done, kubelet)}
    return {name: tuple((moment - start) / 1000 for moment in span) for name, span in spans.items()}


def text(x, y, words, size=13, anchor="start", colour="#1f2328", weight="normal"):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" font-weight="{weight}">{escape(words)}</text>'


def bar(span, lane, place, colour, number=""):
    begin, end = place(span[0]), place(span[1])
    y = LANES[lane]
    yield f'<rect x="{begin:.1f}" y="{y - 11}" width="{max(end - begin, 2):.1f}" height="22" fill="{colour}" stroke="#ffffff"/>'
    if number:
        yield text((begin + max(end, begin + 2)) / 2, y - 16, number, 12, "middle", colour, "bold")


def arrow(x, words, anchor):
    y = LANES["cluster"] - 14
    yield f'<path d="M{x:.1f} {LANES["join"] + 12} V{y} m-4 -7 l4 7 l4 -7" fill="none" stroke="#57606a"/>'
    yield text(x + (-8 if anchor == "end" else 8), LANES["join"] + 34, words, 12, anchor, "#57606a")


def picture(spans):
    first, last = spans["network"][0], spans["kubelet"][1]

    def place(moment):
        return LEFT + (moment - first) * (RIGHT - LEFT) / (last - first)

    height = LANES["cluster"] + 52 + 24 * len(STAGES)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" role="img">'
    yield "<title>The boot of a machine that joins its cluster: network, discover, request, await, install, kubelet</title>"
    yield f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>'
    for tick in range(int(first // 100 + 1) * 100, int(last) + 1, 100):
        yield f'<path d="M{place(tick):.1f} 34 V{LANES["cluster"] - 14}" stroke="#d0d7de"/>'
        yield text(place(tick), 26, f"{tick} ms" if tick else "the service starts", 11, "middle", "#57606a")
    for lane, lines in (("systemd", ("systemd",)), ("install", ("install", "root, no network")), ("join", ("join", "no root, no capability")),
                        ("cluster", ("API server",))):
        y = LANES[lane] + (4 if len(lines) == 1 else -3)
        yield text(14, y, lines[0], 13, weight="bold")
        yield from (text(14, y + 16, line, 12, colour="#57606a") for line in lines[1:])
    yield f'<path d="M14 145 H{RIGHT}" stroke="#cf222e" stroke-width="2" stroke-dasharray="7 5"/>'
    yield text(LEFT, 139, "trust boundary: install trusts nothing that join leaves", 12, colour="#cf222e")
    yield f'<rect x="{LEFT}" y="{LANES["cluster"] - 13}" width="{RIGHT - LEFT}" height="26" fill="#eaeef2"/>'
    yield from bar(spans["start"], "install", place, "#d8c8f5")
    yield text(sum(map(place, spans["start"])) / 2, LANES["install"] + 4, "sandbox, settings", 11, "middle")
    yield f'<path d="M{place(spans["start"][1]):.1f} {LANES["install"]} H{place(spans["install"][0]):.1f}" stroke="#8250df" stroke-dasharray="2 4"/>'
    for number, name, lane, _ in STAGES:
        yield from bar(spans[name], lane, place, COLOURS[lane], number)
    yield from arrow(sum(map(place, spans["discover"])) / 2, "no credential", "end")
    yield from arrow(place(spans["request"][1]), "token", "start")
    y = LANES["cluster"] + 44
    for number, name, lane, words in STAGES:
        begin, end = spans[name]
        yield text(14, y, f"{number}  {name}", 13, colour=COLOURS[lane], weight="bold")
        yield text(160, y, f"{end - begin:.0f} ms", 13, "end")
        yield text(LEFT, y, words, 13)
        y += 24
    yield "</svg>"


def main():
    found = list(entries(sys.stdin))
    if sys.argv[1:] == ["--keep"]:
        print("\n".join(json.dumps(entry, sort_keys=True) for entry in found))
    else:
        print("\n".join(picture(moments(found))))


if __name__ == "__main__":
    main()
