# SPDX-License-Identifier: Apache-2.0
"""The root side treats the network side as hostile: an attacking program replaces `join` in the real unit.

The whole table of bad handoffs is in tests/integration; here is what needs the real unit, user and sandbox.
"""

import json

import pytest

from common import pki
from .harness.node import CURRENT, KUBECONFIG, PKI, STATE, UNIT, UNIT_GROUP, without_state

JOIN = "$0.real join || exit\n"
HEADER = "S=$STATE_DIRECTORY\n"
SHADOW = "root:$6$verysecret:19000:0:99999:7:::\n"


@pytest.fixture
def attack(node):
    """Runs a shell script in place of join, then the real installer; returns how the unit ended, and the failure's code."""
    node.write("/etc/shadow", SHADOW, 0o640)
    node.drop_in(UNIT, "[Service]\nTimeoutStopSec=1\n")
    node.enable(UNIT).boot("--unit=basic.target")
    node.before = node.tree()

    def run(script):
        node.replace_join(HEADER + script)
        node.join(check=False)
        return outcome(node)

    run.node = node
    return run


def outcome(node):
    errors = [e["NODE_BOOTSTRAP_CODE"] for e in node.entries() if "NODE_BOOTSTRAP_CODE" in e]
    return node.show(UNIT, "ActiveState"), errors[-1] if errors else None


def assert_nothing_happened(node):
    assert without_state(node.tree()) == without_state(node.before)
    assert not node.kubelet_was_started()
    assert node.read("/etc/shadow").decode() == SHADOW
    assert "verysecret" not in node.journal_text("--all")
    assert not node.run("cat", UNIT_GROUP, check=False).stdout.strip().isdigit(), "a process is left"


# a process that stays

STAYS = {
    "in the background": "sleep 300 &\n",
    "a daemon in a session of its own": "setsid -f sleep 300\n",
    "deaf to SIGTERM": "setsid -f sh -c 'trap \"\" TERM; while :; do sleep 1; done'\n",
    "stopped": "setsid -f sh -c 'kill -STOP $$'; sleep 0.2\n",
    "swaps what was handed over": "setsid -f sh -c 'while :; do cp $0/joined.json $0/x; mv $0/x $0/joined.json; done' $S\n",
}


@pytest.mark.parametrize("how", STAYS)
def test_process_left_behind(attack, how):
    """It is killed, and does not stop the join: what it wrote is not trusted anyway."""
    node = attack.node
    assert attack(JOIN + STAYS[how]) == ("active", None), node.journal_text("-u", UNIT)
    assert "join left processes in the control group" in node.journal_text("-u", UNIT)
    assert not node.run("cat", UNIT_GROUP, check=False).stdout.strip().isdigit(), "a process is left"
    node.await_kubelet()


def test_join_that_was_stopped(attack):
    """install enforces the deadline, and no process is left."""
    attack.node.configure(timeout="3s")
    assert attack("setsid -f sleep 300; kill -STOP $$\n") == ("failed", "join-overdue"), attack.node.journal_text("-u", UNIT)
    assert_nothing_happened(attack.node)


# what is handed over


PLANTED = {
    "joined.json a link": JOIN + "rm $S/joined.json; ln -s /etc/shadow $S/joined.json\n",
    "pending.key a link": JOIN + "rm $S/pending.key; ln -s /etc/shadow $S/pending.key\n",
    "joined.json a link to the real one": JOIN + "mv $S/joined.json $S/x; ln -s $S/x $S/joined.json\n",
    "joined.json a pipe": JOIN + "rm $S/joined.json; mkfifo $S/joined.json\n",
    "joined.json too large": JOIN + "truncate -s 4M $S/joined.json\n",
    "joined.json not JSON": JOIN + "echo hello >$S/joined.json\n",
    "pending.key empty": JOIN + ": >$S/pending.key\n",
}


@pytest.mark.parametrize("what", PLANTED)
def test_planted(attack, what):
    assert attack(PLANTED[what]) == ("failed", "handoff-malformed"), attack.node.journal_text("-u", UNIT)
    assert_nothing_happened(attack.node)


def test_files_left_behind(attack):
    """They are removed: also those that root without CAP_FOWNER could not remove, and folders in the place of known files."""
    assert attack(JOIN + "seq 2000 | (cd $S && xargs touch); head -c 5M /dev/zero >$S/large; mkdir -p $S/a/b $S/sticky $S/closed $S/.pending.key.tmp\n"
                  "touch $S/a/b/c $S/sticky/x $S/closed/x $S/.pending.key.tmp/x; chmod 1777 $S/sticky; chmod 0 $S/closed; ln -s /etc $S/a/etc; chmod 1700 $S\n") == ("active", None)
    assert attack.node.state_files() == []


def edited(expression):
    """join's handoff with one value changed; Debian always has Perl."""
    return JOIN + f"perl -pi -e '{expression}' $S/joined.json\n"


def test_other_server(attack):
    state, code = attack(edited(r's#"server":"https#"server":"http#; s#"server": "https#"server": "http#'))
    assert (state, code[:8]) == ("failed", "handoff-")
    assert_nothing_happened(attack.node)


def test_user_entry_is_not_smuggled_in(attack):
    state, code = attack(edited(r's#^\{#{"user":{"token":"x"},#'))
    assert (state, code) == ("failed", "handoff-malformed")
    assert_nothing_happened(attack.node)


def test_ca_of_another_cluster(attack, other_cluster):
    """Beside the pinned one, and instead of it."""
    pem = other_cluster.ca.pem.decode().replace("\n", r"\\n")
    for expression in (rf's#("ca": ?")#$1{pem}#', rf's#("ca": ?")[^"]*#$1{pem}#'):
        assert attack(edited(expression)) == ("failed", "handoff-untrusted")
        assert_nothing_happened(attack.node)


def test_key_swapped(attack):
    attack.node.write("/etc/other.key", pki.key_pem(pki.new_key()))
    assert attack(JOIN + "cat /etc/other.key >$S/pending.key\n") == ("failed", "certificate-unusable")
    assert_nothing_happened(attack.node)


# what the dynamic user can reach

REACH = """
for f in /etc/kubernetes/x /etc/kubernetes/manifests/x /etc/kubernetes/kubelet.conf /var/lib/kubelet/x /var/lib/kubelet/pki/x \\
        /var/lib/kubelet/node-bootstrap.env /var/lib/kubelet/kubeadm-flags.env /etc/node-bootstrap/config.yaml \\
        /etc/systemd/system/x.service /run/systemd/system/x.service /etc/credstore/x /usr/bin/x /etc/default/kubelet \\
        /run/x /var/lib/x /proc/sys/kernel/core_pattern /sys/fs/cgroup/systemd/x; do
        (echo x >>$f) 2>/dev/null && echo "wrote $f"
done
for f in /etc/shadow /etc/credstore/node-bootstrap.token /proc/1/environ; do
        (cat $f) >/dev/null 2>&1 && echo "read $f"
done
mkdir /sys/fs/cgroup/systemd/x 2>/dev/null && echo "made a control group"
unshare --user true 2>/dev/null && echo "made a name space"
test -e /proc/1/status && echo "sees other processes"
grep -E '^(CapEff|CapPrm|CapAmb|NoNewPrivs|Seccomp|Uid):' /proc/self/status
exit 1
"""


def test_reach_of_the_network_side(attack):
    attack.node.path("/etc/kubernetes/manifests").mkdir(parents=True)
    attack(REACH)
    said = [e["MESSAGE"] for e in attack.node.entries()]
    assert not [line for line in said if line.split()[0] in ("wrote", "read", "made", "sees")]
    status = dict(line.split(":", 1) for line in said if ":\t" in line)
    assert {int(status[key].strip(), 16) for key in ("CapEff", "CapPrm", "CapAmb")} == {0}
    assert status["NoNewPrivs"].strip() == "1" and status["Seccomp"].strip() == "2"
    assert "0" not in status["Uid"].split()


def test_reach_of_the_root_side(node):
    """Even the root process cannot create a static pod, change kubelet's configuration or write outside its folders."""
    node.path("/etc/kubernetes/manifests").mkdir(parents=True)
    node.write("/usr/lib/hostile", "#!/bin/sh\n" + """
for f in /etc/kubernetes/manifests/x /var/lib/kubelet/config.yaml /etc/x /usr/bin/x /root/x /etc/systemd/system/x \\
        /run/x /run/systemd/system/x /run/lock/x; do
        (echo x >>$f) 2>/dev/null && echo "wrote $f"
done
grep -E '^(CapBnd|NoNewPrivs):' /proc/self/status
exit 1
""", 0o755)
    node.drop_in(UNIT, "[Service]\nExecStart=\nExecStart=!/usr/lib/hostile\n")
    node.boot("--unit=basic.target")
    node.join(check=False)
    said = [e["MESSAGE"] for e in node.entries()]
    assert not [line for line in said if line.startswith("wrote /")]
    assert "CapBnd:\t00000000000000c2" in said, said


def test_last_json_is_not_forged(attack):
    """It is in a folder of root: join can report what it waits for, but not the outcome of the start."""
    assert attack("(echo '{}' >/run/node-bootstrap/last.json; rm /run/node-bootstrap/last.json; echo x >/run/node-bootstrap/x) 2>/dev/null; exit 77\n")[0] == "failed"
    node = attack.node
    assert node.run("ls", "-A", "/run/node-bootstrap").stdout.split() == ["last.json"]
    last = json.loads(node.run("cat", "/run/node-bootstrap/last.json").stdout)
    assert (last["state"], last["code"], last["detail"]) == ("failed", "internal", "join ended with exit status 77")


def test_no_environment_file_of_the_dynamic_user(attack):
    """kubelet reads no file from a folder that join can write to: an EnvironmentFile= there would be root by LD_PRELOAD."""
    node = attack.node
    assert attack(JOIN + "echo LD_PRELOAD=/evil.so >$S/node-bootstrap.env\n") == ("active", None)
    node.await_kubelet()
    files = [line.split()[0] for line in node.show("kubelet.service", "EnvironmentFiles").splitlines()]
    environment = node.read_of_kubelet("environ")
    assert "LD_PRELOAD" not in environment
    for path in files + [KUBECONFIG, PKI, CURRENT]:
        assert not path.startswith(("/run/node-bootstrap", "/var/lib/node-bootstrap", STATE))
        for folder in [p for p in node.path(path).parents if p != node.root and node.root in p.parents]:
            assert folder.stat().st_uid == 0, folder


def test_state_of_the_former_join_is_not_trusted(attack):
    """Files of an earlier start are verified like others, also at the next start."""
    assert attack(JOIN + "rm $S/pending.key; ln -s /etc/shadow $S/pending.key; exit 1\n")[0] == "failed"
    assert attack("exit 0\n") == ("failed", "handoff-malformed")
    assert_nothing_happened(attack.node)


def test_honest_join_mends_it(attack):
    """Afterwards the real program joins with the existing state folder."""
    node = attack.node
    attack("echo rubbish >$S/joined.json; echo rubbish >$S/pending.key; ln -s /etc/shadow $S/.pending.key.tmp; ln -s /etc/shadow $S/.joined.json.tmp\n")
    node.restore_join()
    node.join()
    node.await_kubelet()
    assert node.read("/etc/shadow").decode() == SHADOW
    assert node.state_files() == []
