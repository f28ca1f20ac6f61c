# SPDX-License-Identifier: Apache-2.0
"""The commands of failures.def, run as they stand, each in the situation that it is for (harness/situations*.py).

A command is taken out of the text of its code by its first words, so that a changed text fails.
"""

import contextlib
import re

import pytest

from common.failures import FAILURES
from .conftest import make_cluster
from .harness import situations_certificates, situations_disk, situations_joined, situations_kubelet, situations_service  # noqa: F401 (they add to SITUATIONS)
from .harness.node import UNIT
from .harness.remedies import READS, RESTART, Place, Remedy, changes, commands, type_on
from .harness.situations import SITUATIONS

# Commands that change something, and are not run.
NOT_RUN = {
    "mkdir --parents /etc/rancher/node": "tmpfiles.d does it at each boot; test_k3s.py runs it",
}
# Those that are run in the situations of other codes, and have the same effect in each.
RUN_ELSEWHERE = (RESTART, "systemctl restart kubelet.service", "node-bootstrap setup --token-file=-")
# Codes whose commands are run without the code itself.
NOT_BROUGHT_ABOUT = {
    "clock-wrong": "a machine's clock is the one of all machines; the unit is of a package that the machine does not have",
    "handoff-untrusted": "in this situation, of a machine that metadata moves to another cluster, it is in the integration tests",
    "node-password-missing": "there is no k3s here; test_k3s.py follows the remedy on a node of a scripted supervisor",
    "node-password-rejected": "there is no k3s here: that it accepts another password once the Secret is gone, cannot be shown",
    "refreshed": "it is in test_refresh.py; the command only restarts kubelet",
    "token-not-discarded": "the file of a token that root cannot remove",
    "usage": "its command starts the service, from any situation",
}
# Commands that only read, and are not run: by their first words.
NOT_HERE = {
    **dict.fromkeys(("crictl", "k3s", "oc"), "of another kind of cluster"),
    **dict.fromkeys(("fuser", "resolvectl"), "of a package that the machine does not have"),
    "cat /sys/kernel/security/lsm": "a container has no securityfs",
    "ls /dev/tpmrm0": "a container has no TPM: test_tpm.py runs it",
    "ip route get 169.254.169.254": "fails, as it should: the machine has no metadata service",
    "node-bootstrap-admin cluster-info verify": "reports that no controller runs for the tokens of these tests",
    "kubectl --namespace kube-system get configmap kubelet-config -o yaml": "the ConfigMap of an older cluster has another name",
}


@pytest.fixture(scope="module")
def place(world, new_shared_node, administer):
    cluster = make_cluster(world, "remedies")
    node = new_shared_node("remedied", cluster).enable(UNIT)
    node.boot("--unit=basic.target")
    cluster.upload_config()
    yield Place(node, cluster, administer(cluster).program)
    cluster.stop()


@pytest.mark.parametrize("code", SITUATIONS)
def test_remedy(place, administer, code):
    with contextlib.ExitStack() as stack:
        stack.callback(place.node.forget)
        remedy = Remedy(code, place, stack, administer(place.cluster))
        SITUATIONS[code](remedy)
        spared = {*NOT_RUN, *(RUN_ELSEWHERE if code in NOT_BROUGHT_ABOUT else ())}
        assert [command for command in remedy.left if command not in spared] == [], "each command that changes something is run"
        assert remedy.is_brought_about != (code in NOT_BROUGHT_ABOUT)


def test_every_command_that_changes_something_is_run():
    """By its code, or it is listed with a reason."""
    missing = [(code, command) for code in FAILURES for command in changes(code) if code not in SITUATIONS and command not in NOT_RUN]
    assert [(code, command) for code, command in missing if command not in RUN_ELSEWHERE] == []
    run = {command for code in SITUATIONS for command in changes(code) if code not in NOT_BROUGHT_ABOUT}
    assert run.issuperset(RUN_ELSEWHERE)
    assert [command for command in NOT_RUN if not any(command in changes(code) for code in FAILURES)] == []


ARGUMENTS = {"ls -lL": " /etc", "getent ahosts": " localhost", "findmnt -T": " /", "df -h": " /", "ps -o pid,user,stat,wchan:20,args -p": " 1"}
AT_THE_CLUSTER = ("kubectl", "kubeadm", "node-bootstrap-admin", "grep")


def test_commands_that_read(place):
    """They exist with these options, and succeed on a node."""
    place.node.prepare().join()
    place.cluster.await_node(place.node.name)
    csr = place.cluster.csrs(place.node.name)[0]["metadata"]["name"]
    fields = {"NODE": place.node.name, "CSR": csr, "ENDPOINT": place.cluster.front.endpoint}
    wrong = []
    for command in sorted({command for code in FAILURES for command in commands(code) if READS.match(command)}):
        if command.startswith(tuple(NOT_HERE)):
            continue
        text = re.sub("@NODE_BOOTSTRAP_([A-Z_]+)@", lambda field: fields[field[1]], command).removeprefix("sudo ")
        text += ARGUMENTS.get(command, "")
        is_there = command.startswith(AT_THE_CLUSTER) or "/etc/kubernetes/pki" in command
        try:
            said = place.type(text) if is_there else type_on(place.node, text)
            # This cluster has no pods, and only newer versions of kubectl say so.
            assert said.strip() or ">" in text or " logs " in text, f"{text}: says nothing"
        except AssertionError as error:
            wrong.append(str(error))
    assert not wrong, "\n".join(wrong)
