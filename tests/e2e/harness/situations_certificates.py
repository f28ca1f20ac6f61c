# SPDX-License-Identifier: Apache-2.0
"""Situations (see situations.py) in which a certificate of the API server or its CA is refused."""

import base64

import yaml

from common import pki
from common.wait import until
from .situations import situation


@situation("tls-name-mismatch")
def name_that_is_not_in_the_certificate(r):
    front = r.cluster.new_front("198.51.100.201").listen()
    r.stack.callback(front.close)
    token = r.cluster.token()
    r.cluster.sign_again(r.cluster.cluster_info()["kubeconfig"].replace(r.cluster.front.endpoint, front.endpoint))
    r.begin(token)
    signature = r.cluster.cluster_info()[f"jws-kubeconfig-{token.id}"]
    r.there("kubectl -n kube-public edit configmap cluster-info", KUBE_EDITOR=f"sed -i s/{front.endpoint}/{r.cluster.front.endpoint}/")
    until(lambda: r.cluster.cluster_info().get(f"jws-kubeconfig-{token.id}", signature) != signature, "cluster-info is signed again")
    r.joins(restart=True)
    r.node.forget()
    r.begin(endpoints=[front.endpoint])
    r.there("kubectl --namespace kube-system get configmap kubeadm-config")
    written = r.place.home / "kubeadm.yaml"
    document = yaml.safe_load(written.read_text())
    # The rest is for this control plane, which is on loopback and has no default route.
    document["apiServer"]["certSANs"] = [front.address, "127.0.0.1"]
    own = {"apiVersion": document["apiVersion"], "kind": "InitConfiguration", "localAPIEndpoint": {"advertiseAddress": "192.0.2.1"}}
    written.write_text(yaml.safe_dump_all([document, own]))
    r.there("mkdir")
    assert front.address in r.there("kubeadm init phase certs apiserver")
    r.there("mv")
    r.place.restart_apiserver()
    r.joins()


@situation("tls-expired")
def certificate_that_has_expired(r):
    cluster, client = r.cluster, r.cluster.client
    token = cluster.token()
    names = ["kubernetes", cluster.front.address, "127.0.0.1"]
    cluster._write_client("apiserver", cluster.ca.serving(names, start=-400 * pki.DAY, end=-35 * pki.DAY))
    cluster.client = cluster._new_client()
    cluster.client.check_hostname, cluster.client.verify_mode = False, 0
    r.stack.callback(setattr, cluster, "client", client)
    r.place.restart_apiserver()
    r.begin(token)
    assert "apiserver" in r.there("kubeadm certs check-expiration")
    assert "renewed" in r.there("kubeadm certs renew apiserver")
    r.there("mv")
    cluster.client = client
    r.place.restart_apiserver()
    r.place.restart_controllers()
    r.joins()


@situation("ca-unusable")
def hash_of_a_certificate_that_is_no_ca(r):
    """Of the API server, whose certificate is in cluster-info, too."""
    leaf, text = r.cluster.ca.serving(["192.0.2.1"]), r.cluster.cluster_info()["kubeconfig"]
    document = yaml.safe_load(text)
    document["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(r.cluster.ca.pem + leaf.chain).decode()
    token = r.cluster.token()
    r.cluster.sign_again(yaml.safe_dump(document))
    r.stack.callback(r.cluster.sign_again, text)
    r.node.forget().give(token)
    r.says("node-bootstrap", "setup", r.cluster.front.endpoint, "--ca-cert-hash", pki.pin(leaf.certs[0]))
    assert "CA:TRUE" in r.there("openssl x509")
    assert "kubelet is running" in r.here("node-bootstrap setup -", stdin=r.there("kubeadm token create"))
