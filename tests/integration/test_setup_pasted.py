# SPDX-License-Identifier: Apache-2.0
"""node-bootstrap setup: the join command as people paste it."""

import pty
import select

import pytest

from common.machine import TOKEN
from integration.image import BASIS, GOOD, OTHER, PIN, PIN_2, Image


@pytest.fixture
def image(tmp_path):
    return Image(tmp_path)


# As `kubeadm token create --print-join-command` and `kubeadm init` print it.
PRINTED = [
    ("one line", f"kubeadm join {GOOD} \n"),
    ("two lines", f"kubeadm join 10.0.0.1:6443 --token {TOKEN} \\\n\t--discovery-token-ca-cert-hash {PIN} \n"),
    ("as Windows saves it", f"kubeadm join 10.0.0.1:6443 --token {TOKEN} \\\r\n\t--discovery-token-ca-cert-hash {PIN}\r\n"),
    ("with sudo, without a newline", f"sudo kubeadm join {GOOD}"),
    ("after a prompt", f"root@control-plane:~# kubeadm join {GOOD}\n"),
    ("after the command and a warning", f"# kubeadm token create --print-join-command\nW1122 15:03:11.000000 4242 x.go:1] a warning\nkubeadm join {GOOD} \n"),
    ("with its path", f"sudo -E /usr/bin/kubeadm join {GOOD}\n"),
    ("in quotes", f"'kubeadm join {GOOD}'\n"),
    ("in quotes after a prompt", f'$ "kubeadm join {GOOD}"\n'),
    ("in quotes without the command", f'"{GOOD}"\n'),
    ("with blanks of a web page", f"kubeadm\u00a0join {GOOD.replace(' ', chr(0xa0))}\u200b\n"),
    ("after a byte order mark, with blanks of other widths", f"\ufeffkubeadm join {GOOD.replace(' ', chr(0x2009))}\u202f\n"),
    ("in lines of a chat", f"kubeadm join\u200b {GOOD.replace(' --', chr(0xa0) + chr(0x5c) + chr(13) + chr(10) + chr(0xa0) + '--')}\r\n"),
    ("with dashes of a word processor", f"kubeadm join {GOOD.replace('--', chr(0x2013))}\n"),
    ("with long dashes", f"kubeadm join {GOOD.replace('--', chr(0x2014))}\n"),
    ("with two long dashes and others inside", f"kubeadm join {GOOD.replace('--', chr(0x2014) * 2).replace('en-ca-ce', 'en' + chr(0x2011) + 'ca' + chr(0x2010) + 'ce')}\n"),
    ("with half of the dashes", f"kubeadm join {GOOD.replace('--', '-' + chr(0x2013))}\n"),
    ("in typographic quotes", f"\u201ckubeadm join {GOOD}\u201d\n"),
    ("with values in single ones", f"kubeadm join 10.0.0.1:6443 --token=\u2018{TOKEN}\u2019 --discovery-token-ca-cert-hash \u2019{PIN}\u2018\n"),
    ("from a shell that asks for more", f"$ kubeadm join 10.0.0.1:6443 --token {TOKEN} \\\n> --discovery-token-ca-cert-hash {PIN}\n"),
    ("with such a line for each option", f"kubeadm join 10.0.0.1:6443 \\\r\n> --token {TOKEN} \\\r\n>  --discovery-token-ca-cert-hash {PIN}"),
    ("broken by a mailer", f"kubeadm join 10.0.0.1:6443\n--token {TOKEN}\n  --discovery-token-ca-cert-hash {PIN}\n"),
    ("after the command of another control plane node", f"  kubeadm join 10.0.0.9:6443 --token {OTHER} \\\n\t--discovery-token-ca-cert-hash {PIN} \\\n\t--control-plane\n\nThen you can join "
     f"any number of worker nodes\n\nkubeadm join {GOOD}\n"),
]

# name, the text after a complete line, how many words of it are ignored
AFTER = [
    ("a prompt", "root@control-plane:~# \n", 1),
    ("a prompt with a command", "root@control-plane:~# kubectl get nodes -o wide\nNAME\n", 7),
    ("a warning", "W1122 15:03:11.000000 4242 x.go:1] a warning --token x\n", 8),
    ("empty lines and a sentence", "\n\nRun 'kubectl get nodes' on the control-plane\n", 7),
    ("an end without a newline", "\u276f", 1),
]


@pytest.mark.parametrize("row", AFTER, ids=[row[0] for row in AFTER])
def test_text_after_the_line(image, row):
    done = image.good("-", stdin=f"kubeadm join 10.0.0.1:6443 --token {TOKEN} \\\n  --discovery-token-ca-cert-hash {PIN}\n{row[1]}")
    assert (image.discovery(), image.credentials()) == (BASIS, {"token": TOKEN})
    assert f"ignored the text after the join command: {row[2]} word" in done.stderr and len(done.stderr.splitlines()) == 1


def test_options_after_a_complete_line_are_part_of_it(image):
    """A control plane node must not become a worker because a line continuation was lost."""
    image.refused("usage", "-", "'--control-plane' is for a control plane node", stdin=f"kubeadm join {GOOD}\n --control-plane\n")
    image.good("-", stdin=f"kubeadm join {GOOD}\n--node-name a\nroot@x:~#")
    assert image.document()["node"] == {"name": "a"}


# name, what is typed before the end of the input, the result
TYPED = [
    ("one line", f"kubeadm join {GOOD}\n", 0),
    ("continued", f"kubeadm join 10.0.0.1:6443 --token {TOKEN} \\\n\t--discovery-token-ca-cert-hash {PIN}\n", 0),
    ("without the command", f"{GOOD}\n", 0),
    ("without a pin", f"10.0.0.1:6443 --token {TOKEN} --discovery-token-unsafe-skip-ca-verification\n", 0),
    ("a switch before the API server", f"--discovery-token-unsafe-skip-ca-verification 10.0.0.1:6443 --token {TOKEN}\n", 0),
    ("with a k3s token", f"10.0.0.1:6443 --token K10{64 * 'a'}::{TOKEN}\n", 0),
    ("incomplete, and an empty line", f"kubeadm join 10.0.0.1:6443 --token {TOKEN}\n\n", 64),
    ("nothing", "\n", 64),
    ("the end", "\x04", 64),
]


@pytest.mark.parametrize("row", TYPED, ids=[row[0] for row in TYPED])
def test_terminal_needs_no_end_of_input(image, row):
    ours, theirs = pty.openpty()
    with open(ours, "wb", buffering=0) as keyboard, open(theirs, "rb", buffering=0) as terminal:
        keyboard.write(row[1].encode() + b"rm -rf /\n" * (row[2] == 0))
        done = image.run("-", stdin=terminal)
        assert done.returncode == row[2], done.stderr
        assert "Paste the join command, then press Enter:\n" in done.stderr
        assert not select.select([terminal], [], [], 0)[0], "a shell would run what was pasted after the line"


def test_a_token_from_a_terminal_is_one_line(image):
    ours, theirs = pty.openpty()
    with open(ours, "wb", buffering=0) as keyboard, open(theirs, "rb", buffering=0) as terminal:
        keyboard.write(f"{TOKEN}\nrm -rf /\n".encode())
        done = image.run("10.0.0.1:6443", "--token-file=-", "--ca-cert-hash", PIN, stdin=terminal)
        assert done.returncode == 0 and done.stderr == "Paste the token, then press Enter:\n", done.stderr
        assert not select.select([terminal], [], [], 0)[0], "a shell would run what was pasted after the token"
    assert image.credentials() == {"token": TOKEN}


def test_placeholders_are_named(image):
    for words, expected in ((f"kubeadm join <control-plane>:6443 --token {TOKEN}", "word 3 of the pasted line (20 characters) is a placeholder"),
                            (f"kubeadm join 10.0.0.1 --token <token> --discovery-token-ca-cert-hash {PIN}", "'--token' has a placeholder"),
                            ("kubeadm join 10.0.0.1 --token=${TOKEN}", "'--token' has a placeholder"), ("kubeadm join $MASTER:6443", "is a placeholder"),
                            (f"kubeadm join 10.0.0.1 --token {TOKEN} --discovery-token-ca-cert-hash sha256:<hash>", "'--discovery-token-ca-cert-hash' has a placeholder")):
        image.refused("usage", "-", expected, stdin=words)


@pytest.mark.parametrize("row", PRINTED, ids=[row[0] for row in PRINTED])
def test_line_of_kubeadm_from_standard_input(image, row):
    done = image.good("-", stdin=row[1])
    assert (image.discovery(), image.credentials(), done.stderr) == (BASIS, {"token": TOKEN}, "")


@pytest.mark.parametrize("row", PRINTED, ids=[row[0] for row in PRINTED])
def test_line_of_kubeadm_in_quotes(image, row):
    done = image.run(row[1])
    assert done.returncode == 0 and done.stderr.count("token on the command line") == 1 and "`node-bootstrap setup -`" in done.stderr
    assert (image.discovery(), image.credentials()) == (BASIS, {"token": TOKEN})


def test_options_beside_a_line_from_standard_input(image):
    image.good("--node-name=a - --ca-cert-hash " + PIN_2, stdin=f"kubeadm join {GOOD} --cri-socket unix:///run/c.sock")
    assert image.document() == {"apiVersion": "node-bootstrap/v1", "kind": "NodeBootstrap", "discovery": {**BASIS, "caCertHashes": [PIN, PIN_2]},
                                "node": {"name": "a"}, "kubelet": {"criSocket": "unix:///run/c.sock"}}


def test_phases_of_kubeadm_are_named_once_as_ignored(image):
    done = image.good(f"kubeadm join {GOOD} --ignore-preflight-errors=Swap --ignore-preflight-errors=CRI --skip-phases preflight --patches /p -v 5 --v=5")
    assert done.stderr.count("ignored") == 1
    assert "--ignore-preflight-errors, --skip-phases, --patches, --v\n" in done.stderr
    for option in ("--skip-phases=", "--ignore-preflight-errors=''", "--patches= --v="):
        assert "ignored, since" in image.good("- --force", stdin=f"kubeadm join {GOOD} {option}\n").stderr
