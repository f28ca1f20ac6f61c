# SPDX-License-Identifier: Apache-2.0
"""A machine and the scripted supervisor that it joins; see supervisor.py."""

from common import apiserver, pki, supervisor
from common.failures import FAILURES, count_remedies
from common.machine import NODE, SECRET, TOKEN, TOKEN_ID, Case, Machine, World

PASSWORD_FILE = "etc/rancher/node/password"
SERVER_SECRET = "5e6b2f8c0d9147a3"          # the password of the server's own agent token
USER = pki.node_user(NODE)


class K3sWorld(World):
    """A k3s cluster, and a machine that has its full token."""

    endpoint_type = supervisor.Supervisor
    program = "k3s"

    def __init__(self, path):
        super().__init__(path)
        self.machine.secrets = self.cluster.secrets()
        self.give()

    def new_cluster(self):
        return supervisor.K3s(program=self.program, tokens={TOKEN_ID: apiserver.Token(SECRET)}, passwords={"node": SERVER_SECRET})

    def configure(self, *servers, pins=(), **settings):
        super().configure(*servers, pins=list(pins), **settings)

    def give(self, credentials=TOKEN, root=None):
        self.machine.set_credential("token", self.cluster.k10(credentials, root))

    def liar(self):
        """An attacker who serves the cluster's public CA, with a certificate of another CA."""
        cluster = supervisor.K3s(tokens=self.cluster.tokens, passwords=self.cluster.passwords)
        cluster.hostile = True
        cluster.cacerts = self.cluster.cacerts
        return cluster

    def stranger(self, **options):
        cluster = supervisor.K3s(**options)
        cluster.hostile = True
        return cluster

    @property
    def password(self):
        return self.machine.read(PASSWORD_FILE).strip()


class K3sCase(Case):
    world = K3sWorld
    untouched = {PASSWORD_FILE: 0o600}

    def join(self, world):
        world.machine.inspect(faketime=self.faketime).joined()      # the timeout counts from here
        return super().join(world)

    def verify(self, world, run):
        super().verify(world, run)
        if self.code and "remedy-k3s" in FAILURES[self.code]:
            assert count_remedies(run.stderr, self.code, "remedy-k3s"), "the remedy is for another kind of cluster"


def join(world, **options):
    world.machine.inspect().joined()
    return world.machine.join(**options)


class Rejoin:
    """A node with a certificate in a file where kubelet expects a link: it joins again."""

    def __init__(self, world, identity=None, **options):
        self.world = world
        self.identity = identity or world.cluster.signer.node(NODE, **options)
        world.machine.put_joined_before(self.identity, world.server.url, ca=world.cluster.ca)
        world.machine.target(Machine.CURRENT).unlink()
        world.machine.put(Machine.CURRENT, self.identity.combined)

    def join(self):
        run = self.world.machine.inspect().joined()
        assert run.note["verdict"] != "usable"
        return self.world.machine.join()

    @property
    def users(self):
        return [request.connection.user or request.user for request in self.world.server.seen("client-kube-proxy")]
