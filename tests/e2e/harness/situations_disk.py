# SPDX-License-Identifier: Apache-2.0
"""Situations (see situations.py) in which a directory or file is missing, or a file system is full."""

import re

from .node import PKI, STATE
from .situations import situation


@situation("lock-unavailable")
def lock_is_missing(r):
    """The service cannot create it, since /run is read-only for it."""
    r.node.run("rm", "/run/node-bootstrap.lock")
    r.begin()
    r.here("systemd-tmpfiles --create")
    r.joins(restart=True)


@situation("directory-missing")
def folders_are_removed(r):
    kubelet, saved = "/var/lib/kubelet", "/var/lib/kubelet.saved"
    r.node.run("mv", kubelet, saved)
    put_back = ["sh", "-ec", f"[ ! -e {saved} ] || {{ rm -rf {kubelet}; mv {saved} {kubelet}; }}"]
    r.stack.callback(r.node.run, *put_back)
    r.begin()
    r.here("systemd-tmpfiles --create")
    r.here("systemctl restart")
    assert "Joined: " in r.node.run("node-bootstrap", "status", check=False).stdout, "kubelet's configuration was in the folder as well"
    modes = {name: oct(r.node.path(name).stat().st_mode)[-3:] for name in (kubelet, PKI)}
    r.node.forget()
    r.node.run(*put_back)
    r.node.run("rmdir", "/etc/kubernetes")
    assert "✗ directory-missing: '/etc/kubernetes' does not exist" in r.node.run("node-bootstrap", "check", check=False).stdout
    token = r.cluster.token()
    setup = ["node-bootstrap", "setup", r.cluster.front.endpoint, f"--token={token}", f"--ca-cert-hash={r.cluster.ca.pin}"]
    assert "kubelet is running" in r.node.run(*setup).stdout
    modes |= {name: oct(r.node.path(name).stat().st_mode)[-3:] for name in ("/etc/kubernetes", "/etc/kubernetes/pki")}
    assert modes == {kubelet: "750", PKI: "755", "/etc/kubernetes": "755", "/etc/kubernetes/pki": "755"}


@situation("disk-full")
def full_file_systems(r):
    """Of one block, which one file fills: in the state directory the key, since the service removes what it does not know."""
    r.node.prepare(timeout="3m")
    for folder, what in ((STATE, "state"), ("/etc/kubernetes", "kubeconfig")):
        r.node.run("mkdir", "--parents", folder)
        r.node.run("mount", "-t", "tmpfs", "-o", "size=4k", "none", folder)
        r.stack.callback(r.node.run, "umount", folder)
        if what == "kubeconfig":
            r.node.run("sh", "-c", f"echo full >{folder}/full")
        r.start()
        assert r.node.await_end() == ("failed", 73)
        assert f"✗ disk-full: {what}, " in (said := r.node.run("node-bootstrap", "check", check=False).stdout), said
        assert re.search(rf" 100% {folder}$", said := r.here("df -h"), re.M), said
        assert re.search(rf"% {folder}$", said := r.here("df -i"), re.M), said
        r.node.run("mount", "-o", "remount,size=2m", folder)
    r.here("systemctl restart")
    r.node.await_kubelet()
    assert "Joined: " in r.node.run("node-bootstrap", "status").stdout
