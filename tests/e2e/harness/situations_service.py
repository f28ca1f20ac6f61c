# SPDX-License-Identifier: Apache-2.0
"""More situations, as in situations.py: systemd does not start the program, or its settings are wrong."""

from common.wait import until
from .node import CONFIG, GATE, TOKEN, UNIT
from .situations import situation

SEALED = "/etc/credstore.encrypted/node-bootstrap.token"
DECRYPTS = "[Service]\nLoadCredentialEncrypted=node-bootstrap.token\n"


def cannot_start(r, words):
    """Each command says so, and what to do."""
    assert r.node.run("systemctl", "restart", UNIT, check=False).returncode != 0
    r.says("node-bootstrap", "check", "--local")
    assert words in r.node.run("node-bootstrap", "status", check=False).stdout


def move_away(r, drop_in):
    r.here("mv --target-directory=/root", f" /etc/systemd/system/{UNIT}.d/{drop_in}")
    r.here("systemctl daemon-reload")


@situation("token-encrypted")
def encrypted_token_where_plain_text_belongs(r):
    """This systemd delivers it as it is."""
    r.stack.callback(r.node.run, "rm", "--force", SEALED)
    r.node.prepare()
    text = r.node.run("sh", "-c", f"systemd-creds encrypt --with-key=host --name=node-bootstrap.token {TOKEN} - 2>/dev/null").stdout
    r.node.write(TOKEN, text, 0o600)
    r.start()
    r.node.path(TOKEN).unlink()
    r.node.write(SEALED, text, 0o600)
    r.node.drop_in(UNIT, DECRYPTS, "encrypted.conf")
    r.here("systemctl daemon-reload")
    r.joins(restart=True)


@situation("service-credential")
def token_that_cannot_be_decrypted(r):
    """On a machine that has joined, and on one that has not; this systemd reads the folder only with a drop-in, which setup names."""
    r.stack.callback(r.node.run, "rm", "--recursive", "--force", SEALED, f"/root/{SEALED.rpartition('/')[2]}")
    r.node.prepare()
    r.joins(restart=True)
    for is_joined in (True, False):
        r.node.drop_in(UNIT, DECRYPTS, "encrypted.conf")
        r.node.path(TOKEN).unlink()
        r.node.write(SEALED, "damaged")
        r.node.reset_limit()
        cannot_start(r, "(243/CREDENTIALS); systemd: ")
        assert f" from '{SEALED}'" in r.here("node-bootstrap check", check=False)
        if is_joined:
            r.here("mv --target-directory=/root", f" {SEALED}")
            r.here("systemctl reset-failed")
            r.here("systemctl restart")
            r.joins()
            r.node.unjoin()
            r.node.give(r.cluster.token())
    line = r.there("kubeadm token create")
    assert "LoadCredentialEncrypted=" in r.here("systemctl cat")
    assert "accepts no plain text" in r.here("node-bootstrap setup -", check=False, stdin=line)
    move_away(r, "encrypted.conf")
    assert "kubelet is running" in r.here("node-bootstrap setup -", stdin=line)
    for text in ("SetCredentialEncrypted=site: ZGFtYWdlZA==", "LoadCredential=site:/srv/absent"):
        r.node.drop_in(UNIT, f"[Service]\n{text}\n", "50-absent.conf")
        r.node.reset_limit()
        cannot_start(r, f"drop-ins: '/etc/systemd/system/{UNIT}.d/50-absent.conf'")
        assert f"'/etc/systemd/system/{UNIT}.d/50-absent.conf'" in r.here("node-bootstrap check", check=False)
        move_away(r, "50-absent.conf")
        r.here("systemctl reset-failed")
        r.here("systemctl restart")
        r.joins()


@situation("service-setup")
def file_that_is_missing(r):
    """The program, and what systemd itself reads: then it tries again, until the drop-in is gone."""
    r.node.prepare()
    for lines, words in (("ExecStart=\nExecStart=!/srv/absent", "(203/EXEC); systemd: "), ("EnvironmentFile=/srv/absent", "(resources); systemd: ")):
        r.node.drop_in(UNIT, f"[Service]\n{lines}\n", "50-absent.conf")
        r.node.reset_limit()
        cannot_start(r, words)
        assert "/srv/absent" in r.here("systemctl cat")
        move_away(r, "50-absent.conf")
        r.here("systemctl reset-failed")
        r.here("systemctl restart")
        r.joins()


@situation("start-limit")
def started_too_often(r):
    r.node.prepare()
    r.joins(restart=True)
    r.node.drop_in(UNIT, "[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=1\n", "50-limit.conf")
    r.node.join("restart")
    cannot_start(r, "(start-limit-hit); systemd: ")
    # After a failed start, systemd keeps its result.
    r.node.drop_in(UNIT, "[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=1\n[Service]\nExecStart=\nExecStart=/bin/false\n", "50-limit.conf")
    r.node.join("restart", check=False)
    cannot_start(r, "(start-limit-hit); systemd: ")
    r.node.drop_in(UNIT, "[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=1\n", "50-limit.conf")
    r.here("journalctl")
    r.here("systemctl reset-failed")
    r.here("systemctl start")
    r.joins()


@situation("unit-masked")
def masked_unit(r):
    """The service, or its gate; before the join, and after it, when kubelet is stopped."""
    for unit in (UNIT, GATE):
        r.node.prepare()
        for is_joined in (False, True):
            r.node.run("systemctl", "mask", unit)
            r.node.run("systemctl", "stop", "kubelet.service")
            r.says("node-bootstrap", "check", "--local")
            if not is_joined:
                r.says("node-bootstrap", "setup")
            r.here("systemctl unmask")
            r.here("systemctl start")
            r.joins()
            until(lambda: r.node.is_active("kubelet.service"), "kubelet is running")


@situation("unit-missing")
def unit_file_that_is_gone(r):
    """A package that is installed again has it."""
    r.node.prepare()
    r.node.run("sh", "-c", f"mv /lib/systemd/system/{UNIT} /root/ && systemctl daemon-reload")
    r.says("node-bootstrap", "check", "--local")
    r.node.run("mv", f"/root/{UNIT}", "/lib/systemd/system/")
    r.here("systemctl daemon-reload")
    assert "ExecStart=" in r.here("systemctl cat")
    r.here("systemctl enable --now")
    r.joins()


@situation("settings-malformed", "settings-invalid")
def damaged_settings(r):
    if r.code == "settings-invalid":
        r.begin(discovry={})
    else:
        r.node.prepare().write(CONFIG, "discovery: [")
        r.start()
    r.node.configure()
    r.here("systemctl restart")
    r.joins()


@situation("endpoint-unresolved", "endpoint-refused", "endpoint-unreachable")
def wrong_endpoint(r):
    """The join waits, and continues to use it."""
    wrong = {"endpoint-unresolved": "nosuch.invalid:6443", "endpoint-refused": f"{r.cluster.front.address}:1", "endpoint-unreachable": "203.0.113.1:6443"}
    r.begin(endpoints=[wrong[r.code]])
    r.node.configure()
    r.here("systemctl restart")
    r.joins()
