# SPDX-License-Identifier: Apache-2.0
"""More of situations.py: what is reported of kubelet's settings."""

import re

from .situations import situation
from .wait import until

@situation("kubelet-arguments-missing")
def arguments_of_another_program(r):
    path = "/var/lib/kubelet/kubeadm-flags.env"
    r.node.write(path, 'KUBELET_KUBEADM_ARGS="--v=1"\n')
    r.stack.callback(r.node.run, "rm", "-f", path)
    r.begin(kubelet={"providerID": "test://1"})
    r.joins()
    r.node.run("systemctl", "stop", "kubelet.service")
    r.node.path(path).unlink()
    r.here("node-bootstrap reset")
    r.joins(restart=True)
    assert b"--provider-id=test://1" in r.node.read(path)


@situation("runtime-ambiguous")
def two_container_runtimes(r):
    path, arguments = "/etc/default/kubelet", r.node.read("/etc/default/kubelet").decode()
    r.stack.callback(r.node.write, path, arguments)
    r.node.write(path, re.sub(r"--container-runtime-endpoint=\S+", "", arguments))
    r.node.run("mkdir", "--parents", "/run/crio")
    r.node.run("systemd-run", "--unit=crio", "socat", "UNIX-LISTEN:/run/crio/crio.sock", "PIPE")
    r.stack.callback(r.node.run, "systemctl", "stop", "crio.service")
    until(lambda: r.node.run("test", "-S", "/run/crio/crio.sock", check=False).returncode == 0, "the socket exists")
    r.begin()
    r.joins()
    r.node.configure(kubelet={"criSocket": "/run/crio/crio.sock"})
    r.here("systemctl reload")
    assert "/run/crio/crio.sock" in r.here("cat")
