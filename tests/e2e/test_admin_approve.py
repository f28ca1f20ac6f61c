# SPDX-License-Identifier: Apache-2.0
"""`node-bootstrap-admin approve` and `enroll` beside a real control plane: requests are submitted as the API server sees them."""

import base64
import hashlib
import ipaddress
import itertools
import json

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from harness import controlplane, pki
from harness.wait import until

GROUP = "system:bootstrappers:node-bootstrap"
CLIENT, SERVING = "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"
CLIENT_USAGES, SERVING_USAGES = (["digital signature", "key encipherment", f"{kind} auth"] for kind in ("client", "server"))
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def admin(cluster, administer):
    binding = cluster.bind(GROUP, "system:node-bootstrapper")
    yield administer(cluster)
    cluster.request("DELETE", binding)


@pytest.fixture
def place(cluster, admin):
    made = Place(cluster, admin, f"approved-{next(numbers)}")
    yield made
    made.clear()


class Place:
    """A node that does not exist, its token, and the requests for it."""

    def __init__(self, cluster, admin, node):
        self.cluster, self.admin, self.node, self.names = cluster, admin, node, []
        self.token = self.new_token(node)

    def new_token(self, node, description="rack 4"):
        token = self.cluster.fresh_token()
        self.cluster.request("POST", controlplane.SECRETS, {
            "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"name": f"bootstrap-token-{token.id}", "annotations": {"node-bootstrap/node": node} if node else {}},
            "stringData": {"token-id": token.id, "token-secret": token.secret, "auth-extra-groups": GROUP, "description": description,
                           "usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true"},
        })
        return token

    def submit(self, *, user=None, groups=None, signer=CLIENT, usages=None, organizations=("system:nodes",), names=(), proof=None, node=None):
        """A request as this user submits it; returns its name."""
        builder = x509.CertificateSigningRequestBuilder().subject_name(pki.name(f"system:node:{node or self.node}", *organizations))
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        request = builder.sign(pki.new_key(), hashes.SHA256())
        text = request.public_bytes(Encoding.PEM) + (sign(proof, request) if proof else b"")
        name = f"csr-approve-{next(numbers)}"
        usages = usages or (CLIENT_USAGES if signer == CLIENT else SERVING_USAGES)
        csr = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
               "spec": {"request": base64.b64encode(text).decode(), "signerName": signer, "usages": usages}}
        path = self.cluster.work / f"{name}.json"
        path.write_text(json.dumps(csr))
        user, groups = user or f"system:bootstrap:{self.token.id}", groups or ("system:bootstrappers", GROUP)
        as_user = [f"--as={user}", *(f"--as-group={group}" for group in (*groups, "system:authenticated"))]
        self.cluster.kubectl("create", "--filename", str(path), *as_user)
        self.names.append(name)
        return name

    def csr(self, name):
        return self.cluster.request("GET", f"{controlplane.CSRS}/{name}")

    def conditions(self, name):
        return [(c["type"], c["reason"]) for c in self.csr(name)["status"].get("conditions", ())]

    def listed(self, name, *options):
        [item] = [item for item in json.loads(self.admin.run("approve", "-o", "json", *options)) if item["name"] == name]
        return item

    def refused(self, name, text, *options):
        """One look at the list is enough, and approving it by name is refused."""
        item = self.listed(name, *options)
        assert item["suspicious"] and text in item["verdict"], item
        lines = self.admin.run("approve", *options).splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith(name + " "))
        assert any(text in line and not line.startswith("    ok") for line in lines[at + 1:at + 4]), lines
        done = self.admin.command("approve", name, *options)
        assert done.returncode == 65 and "admin-request-suspicious" in done.stderr and text in done.stderr and done.stdout == ""
        assert self.conditions(name) == []
        return item

    def approved(self, name, *options):
        assert f"approved {name}, node " in self.admin.run("approve", name, *options)
        assert self.conditions(name) == [("Approved", "ApprovedByAdministrator")]
        return until(lambda: self.csr(name)["status"].get("certificate"), "the certificate is issued")

    def make_node(self, ready="True", addresses=()):
        self.cluster.request("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node}})
        self.cluster.request("PATCH", f"/api/v1/nodes/{self.node}/status", {"status": {
            "conditions": [{"type": "Ready", "status": ready, "reason": "Test", "message": ""}],
            "addresses": [{"type": "InternalIP" if part[0].isdigit() else "Hostname", "address": part} for part in addresses]}})

    def clear(self):
        for name in self.names:
            self.cluster.request("DELETE", f"{controlplane.CSRS}/{name}")
        if self.cluster.node(self.node):
            self.cluster.request("DELETE", f"/api/v1/nodes/{self.node}")


def sign(key, request):
    proof = key.sign(b"node-bootstrap attestation v1\n" + hashlib.sha256(request.public_bytes(Encoding.DER)).digest(), ec.ECDSA(hashes.SHA256()))
    lines = base64.encodebytes(proof).replace(b"\n", b"")
    wrapped = b"\n".join(lines[i:i + 64] for i in range(0, len(lines), 64))
    return b"-----BEGIN NODE-BOOTSTRAP KEY SIGNATURE-----\n" + wrapped + b"\n-----END NODE-BOOTSTRAP KEY SIGNATURE-----\n"


def test_pending_request_is_shown_and_approved(place):
    name = place.submit()
    item = place.listed(name)
    assert not item["suspicious"] and item["verdict"] == f"ok: token {place.token.id} is for node {place.node}"
    assert (item["node"], item["kind"], item["token"], item["tokenNode"], item["tokenDescription"], item["nodeState"], item["proof"]) == (
        place.node, "client", place.token.id, place.node, "rack 4", "absent", "-")
    text = place.admin.run("approve")
    assert f"requested by token {place.token.id} for {place.node} (rack 4)" in text and place.token.secret not in text
    assert place.approved(name)
    assert place.admin.run("approve", name) == f"{name} was approved before\n"
    late = place.admin.command("approve", "--deny", name)
    assert late.returncode == 73 and f"{name} was approved before, which is final" in late.stderr
    assert name not in place.admin.run("approve")
    lease = place.cluster.request("GET", f"{LEASES}/node-bootstrap-token-{place.token.id}")
    assert lease["spec"]["holderIdentity"] == place.csr(name)["metadata"]["uid"]
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
    return place.submit(names=[x509.DNSName("kubernetes")])


def server_usages(place):
    return place.submit(usages=[*CLIENT_USAGES, "server auth"])


def revoked_token(place):
    place.cluster.request("DELETE", f"{controlplane.SECRETS}/bootstrap-token-{place.token.id}")
    return place.submit()


def serving(place, *names, user=None):
    place.make_node(addresses=["10.1.2.3", place.node])
    return place.submit(signer=SERVING, user=user or f"system:node:{place.node}", groups=["system:nodes"], names=names)


def serving_for_another_name(place):
    return serving(place, x509.DNSName(place.node), x509.DNSName("other.example.org"))


def serving_for_another_address(place):
    return serving(place, x509.IPAddress(ipaddress.ip_address("10.1.2.4")))


def serving_without_names(place):
    return serving(place)


def serving_of_another_node(place):
    return serving(place, x509.DNSName(place.node), user="system:node:mallory")


def serving_of_a_capital(place):
    return serving(place, x509.DNSName(place.node.upper()))


@pytest.mark.parametrize("submit, text", [
    (token_of_another_node, "FORGED? The bootstrap token"), (another_user, "FORGED? another user, 'mallory', asks for node"),
    (ready_node, "TAKEOVER? the Node"), (more_organizations, "FORGED?"), (alternative_name, "FORGED?"), (server_usages, "FORGED?"),
    (revoked_token, "does not exist any more"), (serving_for_another_name, "'other.example.org' is not an address of Node"),
    (serving_for_another_address, "'10.1.2.4' is not an address of Node"), (serving_without_names, "it has no alternative names"),
    (serving_of_another_node, "the requestor 'system:node:mallory'"), (serving_of_a_capital, "is not an address of Node"),
], ids=lambda value: getattr(value, "__name__", ""))
def test_forged_request_is_marked_and_refused(place, submit, text):
    place.refused(submit(place), text)


def test_all_are_reviewed_before_one_is_approved(place):
    good, forged = place.submit(), token_of_another_node(place)
    done = place.admin.command("approve", good, forged)
    assert done.returncode == 65 and done.stdout == "" and forged in done.stderr
    assert place.conditions(good) == place.conditions(forged) == []
    place.approved(forged, "--force")
    place.approved(good)


def test_denied(place):
    name = token_of_another_node(place)
    assert place.admin.run("approve", "--deny", name) == f"denied {name}, node {place.node}-victim\n"
    assert place.conditions(name) == [("Denied", "DeniedByAdministrator")]


def test_token_for_any_node_is_the_administrators_decision(place):
    place.token = place.new_token(None)
    name = place.submit()
    item = place.listed(name)
    assert not item["suspicious"] and "is for any node" in item["verdict"]
    place.approved(name)


def test_serving_certificate(place):
    name = serving(place, x509.DNSName(place.node), x509.IPAddress(ipaddress.ip_address("10.1.2.3")))
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


@pytest.mark.parametrize("arguments, exit_status", [(["csr/../x"], 64), (["no-such-request"], 66), (["--force"], 64), (["-o", "yaml"], 64)])
def test_usage(admin, arguments, exit_status):
    assert admin.command("approve", *arguments).returncode == exit_status


# Enrolled keys.


def enroll(place, folder, key, *options, node=None):
    return place.admin.command("enroll", node or place.node, "--public-key=-", f"--inventory={folder}", *options, input=pki.public_pem(key).decode())


def test_enrolled_key_is_required(place, tmp_path):
    key, other = pki.new_key(), pki.new_key()
    assert enroll(place, tmp_path, key).returncode == 0
    inventory = f"--inventory={tmp_path}"
    for proof, text, state in [(None, "has no signature with the enrolled key", "missing"), (other, "is not signed with the enrolled key", "INVALID")]:
        assert place.refused(place.submit(proof=proof), text, inventory)["proof"] == state
    name = place.submit(proof=key)      # the API server accepts further blocks behind the request
    assert place.listed(name, inventory)["proof"] == "valid"
    assert place.approved(name, inventory)


def test_enroll(place, tmp_path):
    folder = tmp_path / "inventory"
    key, other = pki.new_key(), pki.new_key("rsa")
    done = enroll(place, folder, key, "--until=1h")
    assert done.returncode == 0, done.stderr
    path = folder / f"{place.node}.yaml"
    first = path.read_bytes()
    assert str(path) in done.stdout and b"until: 20" in first and b"  -----BEGIN PUBLIC KEY-----" in first and path.stat().st_mode & 0o777 == 0o644
    assert enroll(place, folder, key).returncode == 0
    second = path.read_bytes()
    assert second == first      # a limit stays until there is a new one
    done = enroll(place, folder, other)
    assert done.returncode == 73 and "admin-exists" in done.stderr and "another public key" in done.stderr and path.read_bytes() == second
    assert enroll(place, folder, other, "--force").returncode == 0
    assert path.read_bytes() != second
    assert [entry.name for entry in folder.iterdir()] == [path.name]
    path.write_text("addresses: [10.0.0.5]\ndnsNames: [a.example.org]\n")
    assert enroll(place, folder, key).returncode == 0
    assert path.read_text().startswith('addresses: ["10.0.0.5"]\ndnsNames: ["a.example.org"]\npublicKey: |\n')
    (folder / place.node).touch()
    assert enroll(place, folder, key).returncode == 73


PRIVATE = ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.mark.parametrize("text, said", [
    (PRIVATE, "it is a private key"), ("", "expected a public key"), ("ssh-ed25519 AAAA x", "expected a public key"),
    (ec.generate_private_key(ec.SECP192R1()).public_key(), "too weak"),
], ids=["private", "empty", "ssh", "P-192"])
def test_key_that_cannot_be_enrolled(admin, tmp_path, text, said):
    if not isinstance(text, str):
        text = text.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    done = admin.command("enroll", "worker-1", "--public-key=-", f"--inventory={tmp_path}", input=text)
    assert done.returncode == 65 and said in done.stderr, done.stderr
    assert PRIVATE.splitlines()[1] not in done.stderr and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments, exit_status", [
    ([], 64), (["Worker_1"], 64), (["worker-1"], 64), (["worker-1", "--public-key=/nonexistent"], 65),
    (["worker-1", "--public-key=/dev/null", "--until=tomorrow"], 64), (["worker-1", "--public-key=/dev/null", "--until=2020-01-01T00:00:00Z"], 64),
])
def test_usage_of_enroll(admin, tmp_path, arguments, exit_status):
    done = admin.command("enroll", *arguments, f"--inventory={tmp_path}")
    assert done.returncode == exit_status and list(tmp_path.iterdir()) == [], done.stderr
