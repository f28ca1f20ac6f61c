# SPDX-License-Identifier: Apache-2.0
"""The Ansible role of node-bootstrap-admin, with the ansible-core of each release, on the machine itself: one story of a node."""

import re
import shutil

import pytest
import yaml

from common import documentation
from .harness import image
from .harness.leaks import Sampler, forms, found_in
from .harness.node import TOKEN, UNIT

pytestmark = [pytest.mark.each_release, pytest.mark.nightly]

ROLE = "usr/share/ansible/roles/node_bootstrap"
[PLAYBOOK] = documentation.examples("ansible")
CONFIG = "[defaults]\ngathering = explicit\n[connection]\npipelining = true\n"
INVENTORY = "[workers]\nlocalhost ansible_connection=local\n"
VARIABLES = "/root/variables.yaml"


@pytest.fixture
def machine(new_node, cluster, world, admin_tree):
    """With Ansible and the role, and without node-bootstrap, whose package is in /root."""
    work = world.work / "ansible"
    lower = image.layer(work, world.ansible_debs, world.base)
    node = new_node(package=False, layers=[image.install(work, world.base, minor=world.minor, over=[lower]), lower])
    shutil.copytree(admin_tree / ROLE, node.path(f"/{ROLE}"))
    shutil.copy(world.deb, node.path("/root/kube-node-bootstrap.deb"))
    node.write("/etc/ansible/ansible.cfg", CONFIG)
    node.write("/etc/ansible/hosts", INVENTORY)
    node.write("/root/site.yaml", re.sub("sha256:[0-9a-f]{64}", cluster.ca.pin, PLAYBOOK.text.replace("10.0.0.10:6443", cluster.front.endpoint)))
    node.boot()
    return node


class Ansible:
    """Runs the playbook of docs/install.md."""

    def __init__(self, node):
        self.node, self.outputs = node, []
        node.forms = []

    def play(self, token, *options, **variables):
        self.node.forms += forms(token)
        variables = {"node_bootstrap_package": "/root/kube-node-bootstrap.deb", "vault_bootstrap_token": str(token), **variables}
        self.node.write(VARIABLES, yaml.safe_dump(variables), 0o600)
        done = self.node.run("ansible-playbook", "-vvv", "-e", f"@{VARIABLES}", "/root/site.yaml", *options, check=False)
        self.outputs.append(done.stdout)
        [recap] = re.findall(r"^localhost +: (.*)$", done.stdout, re.M)
        counts = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", recap)}
        message = re.search(r'"msg": "([a-z-]+: .*)"', done.stdout)
        print(f"{'--check' if '--check' in options else '':8}{recap}")
        return (counts["changed"], counts["failed"], message and message[1]), done.stdout

    def run(self, what, token, changed, failed=0, **variables):
        """--check, which changes nothing, and then the same without it."""
        print(what)
        before = self.tree()
        predicted, _ = self.play(token, "--check", **variables)
        assert self.tree() == before, "--check changed something"
        happened, said = self.play(token, **variables)
        assert happened[:2] == (changed, failed), said
        return predicted, happened

    def tree(self):
        return self.node.tree("/etc/node-bootstrap", "/etc/credstore", "/etc/credstore.encrypted", "/etc/systemd", "/usr/bin", "/var/lib/dpkg/info")


def test_role(machine, cluster):
    ansible = Ansible(machine)
    unknown, token, another = cluster.fresh_token(), cluster.token(), cluster.token()
    predicted, happened = ansible.run("fresh, with an unknown token", unknown, 2, failed=1, node_bootstrap_timeout="5s")
    assert predicted == (2, 0, None), "what the cluster will say is not known"
    assert happened[2].startswith("token-unknown: ") and "kubeadm token create" in happened[2]
    assert machine.show(UNIT, "ActiveState") == "activating"

    sampler = Sampler(machine)
    sampler.start()
    try:
        predicted, happened = ansible.run("a new token while it waits", token, 1)
    finally:
        found = sampler.finish()
    assert predicted == happened and not found and b"/usr/bin/node-bootstrap" in sampler.programs
    cluster.await_node(machine.name)
    assert machine.read(TOKEN).decode() == str(token) and machine.is_active(UNIT)

    for what, used in (("the same again", token), ("a new token after the join", another)):
        predicted, happened = ansible.run(what, used, 0)
        assert predicted == happened and machine.read(TOKEN).decode() == str(token)

    changed = {"discovery": {"endpoints": [cluster.front.endpoint], "caCertHashes": [cluster.ca.pin]}, "kubelet": {"criSocket": "unix:///run/other.sock"}}
    predicted, happened = ansible.run("another setting after the join", token, 0, failed=1, node_bootstrap_settings=changed)
    assert predicted == happened and happened[2].startswith("setup-conflict: ") and "kubelet.criSocket: (not set) -> " in happened[2]
    predicted, happened = ansible.run("the same, forced", token, 1, node_bootstrap_settings=changed, node_bootstrap_force=True)
    assert predicted == happened

    assert ansible.play(token, node_bootstrap_wait="misspelt")[0][:2] == (0, 1), "and what Ansible itself says then"
    machine.path(VARIABLES).unlink()
    machine.run("journalctl", "--sync")
    assert not found_in(machine), "in a file that is no credential"
    shown = "".join(ansible.outputs) + machine.run("journalctl", "--all", "--output=export").stdout
    assert not any(form.decode() in shown for form in machine.forms)
    assert "node_bootstrap_token" in machine.run("ansible-doc", "--type=role", "node_bootstrap").stdout
    if machine.exists("/usr/bin/ansible-lint"):     # Debian 12 has it.
        machine.run("ansible-lint", "--offline", "--profile=production", f"/{ROLE}")
