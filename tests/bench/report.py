# SPDX-License-Identifier: Apache-2.0
"""bench.report [--record] FOLDER JOIN.json JOIN13.json START.json...: the tables of what bench.table and bench.start have measured, and
FOLDER/bench.json and bench.svg. With --record it writes both to docs/ instead, and the tables into docs/comparison.md.
"""

import json
import re
import statistics
import sys
from pathlib import Path
from xml.sax.saxutils import escape

from common import SOURCE

DOCS = SOURCE / "docs"
BARE, WALL, CPU = "bare client", "#0969da", "#8c959f"
WIDTH, LEFT, BAR = 900, 190, 14


def median(figures, column):
    return statistics.median(row[column] for row in figures)


def multiple(found, row, column):
    """The ratio to the bare client: the median of the ratios within each round, which run under the same load."""
    return statistics.median(a[column] / b[column] for a, b in zip(found["rows"][row], found["rows"][BARE]))


def sync_text(found, row):
    if row not in found["fsyncs"]:
        return "not counted"
    calls, ms = found["fsyncs"][row]
    return f"{calls} ({ms:.1f} ms)" if calls else "none"


def join_table(found):
    yield f"{'':26}{'wall':>9}{'CPU':>10}{'memory':>11}   of the bare client    fsync"
    for row, figures in found["rows"].items():
        wall, cpu, memory = (median(figures, column) for column in range(3))
        ratios = "".join(f"{multiple(found, row, column):7.2f}" for column in range(3))
        yield f"{row:26}{wall:>6.1f} ms{cpu:>7.1f} ms{memory:>7.1f} MiB{ratios}  {sync_text(found, row)}"


def start_table(found):
    yield f"{'':42}{'the unit':>14}{'an empty unit':>16}{'ratio':>8}"
    for at in found["starts"]:
        for unit in [name for name in at["rows"] if not name.startswith("empty-")]:
            ours, empty = at["rows"][unit], at["rows"][f"empty-{unit}"]
            ratio = statistics.median(a / b for a, b in zip(ours, empty))
            yield f"{unit + ', systemd ' + at['systemd']:42}{statistics.median(ours):>11.1f} ms{statistics.median(empty):>13.1f} ms{ratio:>8.2f}"


def libraries(found):
    return ", ".join(name.replace("/", " ") for name in found["libraries"])


def where(found):
    return (f"{found['processors']} processors ({found['processor']}), Linux {found['kernel']}, {found['disk']}, Kubernetes {found['kubernetes']}, "
            f"{libraries(found)}; medians of {len(found['rows'][BARE])} rounds")


def waiting_table(found):
    yield f"{'':26}{'switches':>9}{'CPU':>10}{'memory':>11}{'log lines':>11}{'requests':>10}"
    for name, one in found["waiting"].items():
        yield f"{name:26}{one['switches']:>9}{one['cpuSeconds']:>8.2f} s{max(one['pssMiB']):>7.1f} MiB{one['logLines']:>11}{one['requests']:>10}"


def text(x, y, words, anchor="start", colour="#1f2328"):
    return f'<text x="{x}" y="{y}" font-size="13" text-anchor="{anchor}" fill="{colour}">{escape(words)}</text>'


def picture(found):
    """Two bars for each row: wall time and CPU time."""
    height = 60 + 48 * len(found["rows"])
    longest = max(median(figures, column) for figures in found["rows"].values() for column in (0, 1))
    scale = (WIDTH - LEFT - 140) / longest
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" role="img">'
    yield f"<title>{escape('Wall time and CPU time of ' + ', '.join(found['rows']))}</title>"
    yield f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>'
    yield text(LEFT, 26, "wall time", colour=WALL) + text(LEFT + 80, 26, "CPU time", colour="#57606a")
    for number, (row, figures) in enumerate(found["rows"].items()):
        y = 44 + 48 * number
        yield text(LEFT - 10, y + BAR + 4, row, "end")
        for column, colour in ((0, WALL), (1, CPU)):
            top, length = y + column * (BAR + 2), median(figures, column) * scale
            yield f'<rect x="{LEFT}" y="{top}" width="{length:.1f}" height="{BAR}" fill="{colour}"/>'
            yield text(round(LEFT + length + 6, 1), top + 12, f"{median(figures, column):.1f} ms ({multiple(found, row, column):.2f})")
    yield "</svg>"


def one_list_a_line(text):
    return re.sub(r"\[\s+([^\[\]]*?)\s+\]", lambda found: "[" + re.sub(r"\s+", " ", found[1]) + "]", text)


def indented(lines):
    return "".join(f"    {line}".rstrip() + "\n" for line in lines)


def quotes(docs=DOCS):
    """What docs/comparison.md quotes: {comment before the quotation: the quotation}."""
    bench, waiting = (json.loads((docs / name).read_text()) for name in ("bench.json", "waiting.json"))
    return {
        "join": indented(join_table(bench)), "join on Debian 13": indented(join_table(bench["debian13"])), "start": indented(start_table(bench)), "where": where(bench) + ".\n",
        "libraries of Debian 13": libraries(bench["debian13"]) + ".\n",
        "waiting": indented(waiting_table(waiting)),
    }


def update(page, found):
    for name, words in found.items():
        pattern = rf"(?s)(<!-- bench: {name} -->\n\n).*?\n(\n|\Z)"
        page, n = re.subn(pattern, lambda match: match[1] + words + match[2], page)
        assert n == 1, f"docs/comparison.md has no place for {name}"
    return page


def update_page():
    page = DOCS / "comparison.md"
    page.write_text(update(page.read_text(), quotes()))


def record_waiting(found):
    (DOCS / "waiting.json").write_text(one_list_a_line(json.dumps(found, indent=1)) + "\n")
    update_page()


def main():
    folder, *names = [Path(name) for name in sys.argv[1:] if name != "--record"]
    is_recorded = "--record" in sys.argv
    folder = DOCS if is_recorded else folder
    join, newer, *starts = (json.loads(name.read_text()) for name in names)
    found = join | {"debian13": {name: newer[name] for name in ("libraries", "rows", "fsyncs")}, "starts": starts}
    (folder / "bench.json").write_text(one_list_a_line(json.dumps(found, indent=1)) + "\n")
    (folder / "bench.svg").write_text("\n".join(picture(found)) + "\n")
    print("\n".join([where(found), "", *join_table(found), "", libraries(newer), *join_table(newer), "", *start_table(found)]))
    if is_recorded:
        update_page()


if __name__ == "__main__":
    main()
