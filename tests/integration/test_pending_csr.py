# SPDX-License-Identifier: Apache-2.0
"""A CSR that is not approved: what is reported, why, and when it is repeated. The clock runs faster here."""

import re
import time

import pytest

from common import csrs, faults
from common.machine import NODE, TOKEN_ID
from common.wait import until

FASTER = "+0 x10"
USER = "system:bootstrap:" + TOKEN_ID


@pytest.fixture
def world(world):
    world.cluster.controller = csrs.never
    return world


def told(run):
    """The codes of all messages, in order."""
    return [found[1] for line in run.lines if (found := re.search(r": (csr-pending[a-z-]*): ", line))]


def join(world):
    """Until shortly before the first reminder: the reason is asked for after 10 s, and a busy computer takes a while until then."""
    world.machine.configure(world.server, timeout="55s")
    return world.machine.join(faketime=FASTER)


def test_nobody_is_bound(world):
    world.cluster.tokens[TOKEN_ID].may = ("create", "get", "list", "watch")
    run = join(world).failed("csr-pending-unbound", 75, USER, "system:bootstrappers:kubeadm:default-node-token", "certificatesigningrequests/nodeclient",
                                    "cluster-info publish --auto-approve")
    name, = world.csrs()
    assert told(run) == ["csr-pending", "csr-pending-unbound", "csr-pending-unbound"], "at once, with its reason, and at the end"
    assert all(f": the CSR '{name}' is waiting for approval" in line for line in run.lines if ": csr-pending" in line)
    assert any(f"UTC: the CSR '{name}' is waiting for approval: it will not be approved automatically" in status for status in run.statuses)
    assert "\n".join(run.lines).count(f"kubectl certificate approve {name}\n") == 3, "once for each message"
    assert len(world.server.seen("review")) == 1


def test_a_user_whose_name_is_cut(world):
    """Between characters: systemd drops a STATUS= that is no UTF-8."""
    def rename(obj):
        obj["spec"]["username"] = "x" + "ü" * 60
    for kind in ("create", "get", "watch"):
        world.server.on(kind, faults.edited(rename))
    run = join(world)
    assert run.codes[-1].startswith("csr-pending-un")
    assert any("xüü" in status for status in run.statuses)
    assert not any("\ufffd" in line for line in [*run.statuses, *run.lines])


def test_no_approver(world):
    run = join(world).failed("csr-pending-unapproved", 75, f"'{USER}' is allowed automatic approval", "csrapproving")
    assert told(run) == ["csr-pending", "csr-pending-unapproved", "csr-pending-unapproved"]
    assert world.server.kinds.count("watch") == 2, "before the question and after it"


def test_no_machine(world):
    """OpenShift has its own approver, so the API server is not asked."""
    def rename(obj):
        obj["spec"]["username"] = csrs.MACHINE_CONFIG
    world.server.on("create", faults.edited(rename))
    world.server.on("watch", faults.stall)
    run = join(world).failed("csr-pending-unapproved", 75, f"InternalDNS is '{NODE}'", "oc get machines")
    assert set(told(run)) == {"csr-pending-unapproved"} and not world.server.seen("review")


@pytest.mark.parametrize("controller, words", [
    (csrs.never, ["node-bootstrap's controller decides on the requests of 'system:bootstrap:"]), (csrs.delete(), ["was deleted or replaced each time"]),
], ids=["undecided", "deleted each time"])
def test_token_for_one_node(world, controller, words):
    """node-bootstrap's controller decides; nobody is told to approve the request."""
    world.cluster.controller = controller
    world.cluster.tokens[TOKEN_ID].groups = ("system:bootstrappers", "system:bootstrappers:node-bootstrap")
    run = join(world).failed("csr-pending-controller", 75, "node-bootstrap-admin requests list --node=", *words)
    assert set(told(run)) == {"csr-pending-controller"} and not world.server.seen("review")
    assert not any("certificate approve" in line for line in [*run.lines, *run.statuses])


@pytest.mark.parametrize("answer", [
    faults.error(403, "Forbidden", "no reviews"), faults.error(404, "NotFound", "no such thing"), faults.INTERNAL, faults.PORTAL, faults.hang_up_instead,
    faults.answer('{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":false,"evaluationError":"webhook down"}}'),
], ids=["403", "404", "500", "a web page", "no answer", "an evaluation error"])
def test_reason_is_not_known(world, answer):
    """This is not a failure, and no cause is guessed."""
    world.server.on("review", answer)
    run = join(world).failed("csr-pending", 75, "the API server does not say")
    assert set(told(run)) == {"csr-pending"} and len(world.server.seen("review")) == 1


def test_reason_by_polling(world):
    world.server.on("watch", faults.forbidden)
    run = join(world).failed("csr-pending-unapproved", 75)
    assert len(world.server.seen("review")) == 1 and told(run)[:2] == ["csr-pending", "csr-pending-unapproved"]


def test_approval_while_the_server_thinks(world):
    """The watch after the query sees the approval, and the object is not read again."""
    world.server.on("review", faults.stall)
    run = world.machine.start_join(faketime=FASTER)
    name = world.cluster.csrs.wait_for()[0]
    until(lambda: world.server.seen("review"), "an access review is requested")
    csrs.approve()(world.cluster, name)
    run.wait().joined()
    assert world.server.kinds.count("watch") == 2 and "get" not in world.server.kinds


def test_approval_by_itself_asks_nothing(world):
    world.cluster.controller = csrs.approve(after=5)
    world.machine.join().joined()
    assert not world.server.seen("review")


def test_told_again_at_growing_distances(world):
    """After 1, 5 and 15 min, and not in between. No text has a duration: `status` shows the last one until the next."""
    world.machine.configure(world.server, timeout=None)
    begin, waited = time.monotonic(), []
    run = world.machine.start_join(faketime="+0 x30")
    for n in range(3, 6):
        until(lambda: len(told(run)) >= n, f"{n} messages")
        waited.append((time.monotonic() - begin) * 30 / 60)
    csrs.approve()(world.cluster, world.csrs()[0])
    run.wait().joined()
    assert len(told(run)) == 5 and [a <= b < 2 * a + 2 for a, b in zip((1, 5, 15), waited)] == [True] * 3, (waited, run.lines)
    assert not re.search(r"waiting for approval for|approval \(", "\n".join([*run.lines, *run.statuses]))


def test_new_wait_after_the_request_was_replaced(world):
    """The cause that was found for one request is not reported for another one."""
    run = world.machine.start_join(faketime=FASTER)
    name = world.cluster.csrs.wait_for()[0]
    run.wait_for_line("csr-pending-unapproved")
    world.cluster.tokens[TOKEN_ID].may = ("create", "get", "list", "watch")
    world.cluster.csrs.delete(name)
    run.wait_for_line("csr-pending-unbound")
    csrs.approve()(world.cluster, name)
    run.wait().joined()
    assert len(world.server.seen("review")) == 2
