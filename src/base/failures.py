#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Generates files of the build from failures.def: failures.py {enum|table|texts|catalog|mdoc} failures.def... OUTPUT

The enum contains the codes of all files: those of the first one end with _NB_CODE_N, those of the second one, which only
node-bootstrap-admin uses, with _NB_CODE_ADMIN_N. So nodes carry no texts of that program.
"""

import itertools
import re
import sys
import textwrap

KEYS = ("message-id", "exit", "class", "subject", "what", "unchanged", "remedy")
K3S = "remedy-k3s"          # instead of the remedy, where the join method is for k3s or RKE2; may be missing
CLASSES = ("wait", "confirm", "fatal", "event")
COMMAND = "    "            # what begins the line of a command in the text of a remedy
WIDTH = 76                  # of the catalog's lines: journalctl puts something before each


def read(path):
    """Texts with more than one line have one for each paragraph and one for each command."""
    rows, group, shared, texts = [], None, {}, None
    with open(path, encoding="ascii") as lines:
        for number, line in enumerate(lines, 1):
            line = line.rstrip("\n")
            if not line or line.startswith("#"):
                continue
            if line.startswith("    "):
                if texts is None:
                    sys.exit(f"{path}:{number}: expected a key before this line")
                so_far, more = texts[0][texts[1]], expand(path, number, line.strip(), shared)
                is_prose = so_far and not more.startswith(COMMAND) and not so_far.rpartition("\n")[2].startswith(COMMAND)
                texts[0][texts[1]] += (" " if is_prose else "\n" if so_far else "") + more
                continue
            if name := re.fullmatch(r"%([a-z0-9-]+)", line):
                shared[name[1]] = ""
                texts = shared, name[1]
                continue
            heading = re.fullmatch(r"== ([A-Za-z -]+): (.+)", line)
            if heading:
                group = heading.groups()
                continue
            section = re.fullmatch(r"\[([a-z][a-z-]*)\]", line)
            if section:
                rows.append({"code": section[1], "line": number, "group": group})
                continue
            key, separator, value = line.partition(": ")
            if not separator or key not in (*KEYS, K3S) or not rows or key in rows[-1] or not value:
                sys.exit(f"{path}:{number}: expected [code], `== TITLE: SENTENCE`, or one of {', '.join(KEYS)}, once each: {line}")
            rows[-1][key] = expand(path, number, value, shared)
            texts = rows[-1], key
    check(path, rows)
    return rows


def expand(path, number, text, shared):
    """A command begins with "$ "; "%NAME" is a text that several remedies have."""
    if text.startswith("$ "):
        return COMMAND + text[2:]
    if text.startswith("%"):
        if text[1:] not in shared:
            sys.exit(f"{path}:{number}: there is no {text}")
        return shared[text[1:]]
    return text


def commands(text):
    """Those on lines of their own, and what is quoted in prose."""
    return [found[1] or found[2] for found in re.finditer(r"^ {4}(.+)$|`([^`]*)`", text, re.M)]


def check(path, rows):
    for row in rows:
        where = f"{path}:{row['line']}: [{row['code']}]"
        missing = [key for key in KEYS if key not in row]
        if missing:
            sys.exit(f"{where} lacks {', '.join(missing)}")
        if not row["group"]:
            sys.exit(f"{where} is in no group: expected `== TITLE: SENTENCE` above")
        if not re.fullmatch(r"[0-9a-f]{32}", row["message-id"]):
            sys.exit(f"{where} message-id: expected 32 hex digits")
        if row["class"] not in CLASSES:
            sys.exit(f"{where} class: expected one of {', '.join(CLASSES)}")
        if (row["exit"] == "0") != (row["class"] == "event") and row["code"] != "stopped":
            sys.exit(f"{where} exit: 0 is for events, and only for them")
    for key in ("code", "message-id"):
        values = [row[key] for row in rows]
        for value in values:
            if values.count(value) > 1:
                sys.exit(f"{path}: {key} {value} appears twice")


def identifier(row):
    return "NB_" + row["code"].upper().replace("-", "_")


def quote(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def enum(rows, admin_rows):
    check("failures.def", rows + admin_rows)
    yield "/* Made from failures.def. */"
    yield "#pragma once"
    yield ""
    yield "enum nb_code {"
    yield "        NB_NONE,"
    for row in rows:
        yield f"        {identifier(row)},"
    yield "        _NB_CODE_N,"
    yield "        _NB_CODE_BEFORE_ADMIN = _NB_CODE_N - 1,"
    for row in admin_rows:
        yield f"        {identifier(row)},"
    yield "        _NB_CODE_ADMIN_N,"
    yield "};"


def table(rows):
    yield "/* Made from failures.def. */"
    for row in rows:
        index = identifier(row) + (" - _NB_CODE_N" if row["code"].startswith("admin-") else "")
        values = ", ".join((quote(row["code"]), quote(row["message-id"]), row["exit"], f"NB_CLASS_{row['class'].upper()}",
                            *(quote(row[key]) for key in ("subject", "remedy", K3S) if key in row)))
        yield f"[{index}] = {{ {values} }},"


def texts(rows):
    yield "/* Made from failures.def. */"
    for row in rows:
        yield f"[{identifier(row)}] = {{ {quote(row['what'])}, {quote(row['unchanged'])} }},"


def without_fields(text):
    """The fields of an entry may come from an attacker who has taken over a join, and people copy commands."""
    return re.sub(r"`[^`]*`|^ {4}.*$", lambda command: re.sub(r"@NODE_BOOTSTRAP_([A-Z_]+)@", r"<\1>", command[0]), text, flags=re.M)


def wrap(text):
    """Breaks the lines of prose, but not within quotation marks of commands."""
    for line in text.split("\n"):
        if line.startswith(COMMAND):
            yield line
            continue
        glued = re.sub("`[^`]*`", lambda quoted: quoted[0].replace(" ", "\0"), line)
        for part in textwrap.wrap(glued, WIDTH, break_long_words=False, break_on_hyphens=False):
            yield part.replace("\0", " ")


def catalog(rows):
    for row in rows:
        if row["remedy"].startswith("Nothing to do."):
            continue
        yield f"-- {row['message-id']}"
        yield f"Subject: {row['subject']}"
        yield "Defined-By: node-bootstrap"
        yield f"Documentation: man:{'node-bootstrap-admin(8)' if row['code'].startswith('admin-') else 'node-bootstrap.failures(7)'}"
        for key in ("what", "unchanged", "remedy"):
            yield ""
            yield from wrap(without_fields(row[key]))
        if K3S in row:
            yield ""
            yield from wrap("With k3s and RKE2:\n" + without_fields(row[K3S]))
        yield ""


def roff(text):
    """Formats a text as mdoc: one sentence or command per line, and no line that looks like a request."""
    text = re.sub(r"@NODE_BOOTSTRAP_([A-Z_]+)@", r"<\1>", text)
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    for is_command, lines in itertools.groupby(text.split("\n"), lambda line: line.startswith(COMMAND)):
        if is_command:
            yield ".Bd -literal -offset indent -compact"
            yield from (line.removeprefix(COMMAND) for line in lines)
            yield ".Ed"
            continue
        for line in lines:
            glued = re.sub("`[^`]*`", lambda quoted: quoted[0].replace(" ", "\\ "), line).replace("`", "\\(ga")
            for sentence in re.split(r"(?<=[.:;]) ", glued):
                yield "\\&" + sentence if sentence.startswith((".", "'")) else sentence


def groups(rows):
    return itertools.groupby((row for row in rows if row["class"] != "event"), lambda row: row["group"])


def index(rows):
    yield ".Bl -tag -width Ds"
    for (title, _), members in groups(rows):
        yield f".It Sx {title}"
        yield ", ".join(row["code"] for row in members).replace("-", "\\-") + "."
    yield ".El"


def mdoc(rows):
    for (title, about), members in groups(rows):
        yield f".Ss {title}"
        yield from roff(about)
        yield ".Bl -tag -width Ds"
        for row in members:
            yield from entry(row)
        yield ".El"


def entry(row):
    yield f".It Sy {row['code']} Pq Li {row['class']} , No exit status {row['exit']}"
    yield row["subject"].replace("'", "\\(aq") + "."
    for key in ("what", "unchanged"):
        yield from roff(row[key])
    yield ".Pp"
    yield from roff(row["remedy"])
    if K3S in row:
        yield ".Pp"
        yield "With k3s and RKE2:"
        yield from roff(row[K3S])


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("enum", "table", "texts", "catalog", "mdoc"):
        sys.exit(__doc__)
    make = {"enum": enum, "table": table, "texts": texts, "catalog": catalog, "mdoc": mdoc}[sys.argv[1]]
    text = "\n".join(make(*(read(path) for path in sys.argv[2:-1]))) + "\n"
    with open(sys.argv[-1], "w", encoding="ascii") as output:
        output.write(text)


if __name__ == "__main__":
    main()
