# SPDX-License-Identifier: Apache-2.0
"""`node-bootstrap-admin requests` and `enroll` beside a real control plane: requests are submitted as the API server sees them."""

import base64
import hashlib
import itertools

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from common import pki, versions
from common.csrs import SERVING
from common.wait import until
from .harness import controlplane
from .harness.approvals import GROUP, Place

numbers = itertools.count(1)
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


@pytest.fixture(scope="module")
def admin(cluster, administer):
    binding = cluster.bind(GROUP, "system:node-bootstrapper")
    cluster.policy(**controlplane.SERVING, servingNames=".example.org")
    yield administer(cluster)
    cluster.policy()
    cluster.request("DELETE", binding)


@pytest.fixture
def place(cluster, admin):
    made = Place(cluster, admin, f"approved-{next(numbers)}.example.org")
    yield made
    made.clear()


def test_pending_request_is_shown_and_approved(place):
    name = place.submit()
    item = place.listed(name)
    assert not item["suspicious"] and item["verdict"] == "ok: the token is for this node"
    assert (item["node"], item["kind"], item["requestor"], item["state"], item["proof"]) == (
        place.node, "client", f"system:bootstrap:{place.token.id} (rack 4)", "absent", "-")
    assert place.token.secret not in place.admin.run("requests", "list", "--output=json")
    assert place.approved(name)
    assert place.admin.run("requests", "approve", name) == f"{name} is already approved\n"
    late = place.admin.command("requests", "deny", name)
    assert late.returncode == 73 and f"{name} is already approved, which is final" in late.stderr
    assert name not in place.admin.run("requests", "list", "--output=json")
    lease = place.cluster.request("GET", f"{LEASES}/node-bootstrap-token-{place.token.id}")
    request = x509.load_pem_x509_csr(base64.b64decode(place.csr(name)["spec"]["request"]))
    key = request.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert lease["spec"]["holderIdentity"] == hashlib.sha256(key).hexdigest()
    place.refused(place.submit(), "FORGED? The bootstrap token")


def token_of_another_node(place):
    return place.submit(node=place.node + "-victim")


def another_user(place):
    return place.submit(user="mallory", groups=[GROUP])


def ready_node(place):
    place.make_node()
    return place.submit()


def more_organizations(place):
    return place.submit(organizations=("system:nodes", "system:masters"))


def alternative_name(place):
    return place.submit(names=["kubernetes"])


def server_usages(place):
    return place.submit(usages=[*pki.USAGES, "server auth"])


def bound_token_without_a_node(place):
    place.token = place.new_token(None)
    return place.submit()


def revoked_token(place):
    place.cluster.request("DELETE", f"{controlplane.SECRETS}/bootstrap-token-{place.token.id}")
    return place.submit()


def serving(place, *names, user=None, groups=("system:nodes",)):
    place.make_node(addresses=["10.1.2.3", place.node])
    return place.submit(signer=SERVING, user=user or f"system:node:{place.node}", groups=groups, names=names)


def serving_for_another_name(place):
    return serving(place, place.node, "other.example.org")


def serving_for_another_address(place):
    return serving(place, "10.1.2.4")


def serving_without_names(place):
    return serving(place)


def serving_of_another_node(place):
    return serving(place, place.node, user="system:node:mallory",
                   groups=versions.of(place.cluster.minor, "groups to impersonate a node"))


@pytest.mark.parametrize("submit, text", [
    (token_of_another_node, "FORGED? The bootstrap token"), (another_user, "unknown requestor: 'mallory' asks for node"),
    (ready_node, "TAKEOVER? The Node"), (more_organizations, "FORGED?"), (alternative_name, "FORGED?"), (server_usages, "FORGED?"),
    (revoked_token, "does not exist any more"), (bound_token_without_a_node, "has no annotation node-bootstrap/node"), (serving_for_another_name, "'other.example.org' is neither enrolled"),
    (serving_for_another_address, "'10.1.2.4' is not among the addresses"), (serving_without_names, "it has no alternative names"),
    (serving_of_another_node, "the requestor is not the node"),
], ids=lambda value: getattr(value, "__name__", ""))
def test_forged_request_is_marked_and_refused(place, submit, text):
    place.refused(submit(place), text)


def test_all_are_reviewed_before_one_is_approved(place):
    good, forged = place.submit(), token_of_another_node(place)
    done = place.admin.command("requests", "approve", good, forged)
    assert done.returncode == 65 and done.stdout == "" and forged in done.stderr
    assert place.conditions(good) == place.conditions(forged) == []
    place.approved(forged, "--force")
    place.approved(good)


def test_denied(place):
    name = token_of_another_node(place)
    assert place.admin.run("requests", "deny", name) == f"denied {name}, node {place.node}-victim\n"
    assert place.conditions(name) == [("Denied", "DeniedByAdministrator")]


def test_token_for_any_node_is_the_administrators_decision(place):
    place.token = place.new_token(None, group=controlplane.MANUAL_GROUP)
    name = place.submit(groups=("system:bootstrappers", controlplane.MANUAL_GROUP))
    item = place.listed(name)
    assert not item["suspicious"] and "is unbound" in item["verdict"]
    place.approved(name)


def test_serving_certificate(place):
    name = serving(place, place.node, "10.1.2.3")
    assert place.listed(name)["names"] == [place.node, "10.1.2.3"]
    place.approved(name)


def test_api_server_refuses_what_was_not_reviewed(place):
    """The approval names UID and resourceVersion of the request that was looked at."""
    name = place.submit()
    seen = place.csr(name)["metadata"]
    place.cluster.request("PATCH", f"{controlplane.CSRS}/{name}", {"metadata": {"labels": {"changed": "since"}}})
    for stale in ({"uid": seen["uid"], "resourceVersion": seen["resourceVersion"]}, {"uid": "other"}):
        with pytest.raises(controlplane.ApiError) as error:
            place.cluster.request("PATCH", f"{controlplane.CSRS}/{name}/approval", {"metadata": stale, "status": {"conditions": [
                {"type": "Approved", "status": "True", "reason": "Test"}]}})
        assert error.value.status in (409, 422)
    assert place.conditions(name) == []


@pytest.mark.parametrize("arguments, exit_status", [(["csr/../x"], 64), (["no-such-request"], 66), (["--force"], 64)])
def test_usage(admin, arguments, exit_status):
    assert admin.command("requests", "approve", *arguments).returncode == exit_status


# Enrolled keys.


def enroll(place, key, *options):
    return place.admin.command("enroll", "add", place.node, "--public-key=-", *options, input=pki.public_pem(key).decode())


def test_enrolled_key_is_required(place):
    key, other = pki.new_key(), pki.new_key()
    assert enroll(place, key).returncode == 0
    for proof, text, state in [(None, "has no signature with the enrolled key", "missing"), (other, "is not signed with the enrolled key", "INVALID")]:
        assert place.refused(place.submit(proof=proof), text)["proof"] == state
    name = place.submit(proof=key)      # the API server accepts further blocks behind the request
    assert place.listed(name)["proof"] == "valid"
    assert place.approved(name)


def test_record_of_a_node(place):
    """What is written, replaced, shown and removed; a request of a node that is removed later needs a proof for ever."""
    key, other = pki.new_key(), pki.new_key("rsa")
    assert enroll(place, key, "--addresses=10.1.2.3").returncode == 0
    done = enroll(place, other)
    assert done.returncode == 73 and "admin-exists" in done.stderr and "another public key" in done.stderr
    assert enroll(place, other, "--force").returncode == 0
    shown = place.admin.run("enroll", "show", place.node)
    assert " 10.1.2.3\n" in shown and shown.endswith(pki.public_pem(other).decode()) and place.node in place.admin.run("enroll", "list")
    early = place.submit()
    place.admin.run("enroll", "remove", place.node)
    place.refused(early, "was made before the enrolled node")
    until(lambda: not place.listed(place.submit())["suspicious"], "a request of a later second is approved without a proof")
    assert enroll(place, key).returncode == 0
