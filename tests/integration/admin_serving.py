# SPDX-License-Identifier: Apache-2.0
"""What the approver of serving certificates finds in a cluster, for its tests."""

from common import pki
from common.csrs import SERVING
from .admin_cluster import POLICY, Cluster

CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
EVENTS = "/api/v1/namespaces/default/events"
NODE = "worker-1.example.org"
USUAL = {"servingNames": ".example.org", "servingPrefixes": "10.0.0.0/8", "servingRefused": "10.0.0.1,api.example.org",
         "serviceNetworks": "10.96.0.0/12", "podNetworks": "10.244.0.0/16"}


def put_node(api, *addresses, name=NODE, **metadata):
    api.objects.put(f"/api/v1/nodes/{name}", metadata=metadata,
                    status={"addresses": [{"type": "InternalIP", "address": address} for address in addresses]})


def submit(api, name, *names, node=NODE):
    Cluster(api).request(name, node, user=pki.node_user(node), groups=[pki.NODES], signer=SERVING, sans=names,
                         usages=["digital signature", "server auth"])


def approval(api, name):
    conditions = (api.objects.look(f"{CSRS}/{name}").get("status") or {}).get("conditions") or [{}]
    return conditions[0].get("type")


def event(api, name):
    return " / ".join(e["message"] for e in api.objects.all(EVENTS) if e["involvedObject"]["name"] == name)


def put_policy(api, **data):
    api.objects.put(POLICY, data={**USUAL, **data})
