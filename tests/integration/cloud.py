# SPDX-License-Identifier: Apache-2.0
"""A machine in a cloud, with a network and DMI of its own, and the scripted metadata service there; see metadata.py."""

import json

import yaml

from common import apiserver, metadata, pki
from common.machine import HEADER, NODE, TOKEN, Case, Machine, Run, World, to_yaml
from common.namespace import Namespace, Packets

OTHER_TOKEN = "ffffff.ffffffffffffffff"     # of no cluster
PLATFORM = "/run/node-bootstrap-platform"
MALFORMED = ("metadata-malformed", 65)
MISSING = ("token-missing", 66)


class CloudMachine(Machine):
    """Fresh from an image: no credential, no settings."""

    def __init__(self, path, namespace):
        super().__init__(path)
        self.namespace = namespace
        self.wrap = []          # in front of each program
        (self.credentials / "node-bootstrap.token").unlink()

    def new_run(self, argv, environment, **options):
        return self.namespace.within(lambda: Run([*self.namespace.enter, *self.wrap, *argv], environment, **options))


class CloudWorld(World):
    """A cluster, and a machine in a cloud whose user data contains everything that the machine needs."""

    provider = metadata.Aws
    server_type = apiserver.ApiServer

    def __init__(self, path):
        self.namespace = Namespace()
        self.cloud = None
        self.local = {}         # settings in config.yaml, section by section
        self.endpoint_type = lambda cluster, **options: self.namespace.within(lambda: self.server_type(cluster, **options))
        self.machine_type = lambda path: CloudMachine(path, self.namespace)
        super().__init__(path)
        self.machine.endpoints = [self.server.endpoint]

    def configure(self, *servers, timeout="80s", **settings):
        self.machine.write_settings(HEADER + to_yaml({**self.local, **settings, "timeout": timeout}))

    def document(self, token=TOKEN, **changes):
        """Settings as user data holds them; a section of None is left out."""
        sections = {"discovery": {"endpoints": [self.server.endpoint], "caCertHashes": [self.cluster.ca.pin]},
                    "node": {"name": NODE}, "bootstrap": token and {"token": token}, **changes}
        return HEADER + to_yaml({name: section for name, section in sections.items() if section is not None})

    def enter_cloud(self, service=None, *, address=None, **options):
        """From now on the machine is in this cloud."""
        service = service or self.provider
        self.namespace.set_dmi(**service.dmi)
        self.namespace.reach(address or service.address)
        options.setdefault("user_data", self.document())
        self.cloud = self.closing(self.namespace.within(lambda: service(address, **options)).start())
        return self.cloud

    def recognised(self, service=None):
        """The machine is in this cloud, but the metadata service does not answer."""
        self.namespace.set_dmi(**(service or self.provider).dmi)

    def find_platform(self, user_data=None, meta_data=None, token=None, **note):
        """What node-bootstrap-platform.service has found on a volume, or in VMware's guestinfo, and left."""
        files = {"platform.json": json.dumps(note), "user-data": user_data, "meta-data": meta_data, "token": token}
        for name, data in files.items():
            if data is not None:
                self.namespace.write(f"{PLATFORM}/{name}", data, 0o600)

    def packets(self):
        return self.closing(Packets(self.namespace))

    def close(self):
        super().close()
        self.namespace.close()

    def check(self):
        super().check()
        if self.cloud:
            assert self.cloud.violations == []
            seen = repr([(request.target, request.headers) for request in self.cloud.requests])
            assert not any(secret in seen for secret in self.machine.secrets), "the token's secret was sent to the metadata service"

    # What is there afterwards.

    def assert_joined(self, node=NODE, token=TOKEN):
        machine = self.machine
        kubeconfig = yaml.safe_load(machine.read(Machine.KUBECONFIG))
        assert kubeconfig["clusters"][0]["cluster"]["server"] == self.server.url
        leaf = machine.installed_identity()[0][0]
        assert leaf.subject.rfc4514_string() == f"CN={pki.node_user(node)},O=system:nodes"
        users = {request.user for request in self.server.requests if request.kind == "create"}
        assert users == {"system:bootstrap:" + token.split(".", maxsplit=1)[0]}


def knows_the_cluster(world):
    """As part of its image: only the token is missing."""
    world.local = {"discovery": {"endpoints": [world.server.endpoint], "caCertHashes": [world.cluster.ca.pin]}, "node": {"name": NODE}}


class CloudCase(Case):
    """Runs the unit's command to the end. `prepare` brings the machine into a cloud."""

    world = CloudWorld

    def __init__(self, name, prepare, code=None, exit_status=0, *words, node=NODE, **options):
        super().__init__(name, prepare, code, exit_status, *words, **options)
        self.node = node
        if code:
            self.requests = options.get("requests", [])
            self.settings.setdefault("timeout", "5s")       # what a metadata service says ends no join
        if (code, exit_status) == MISSING:
            self.prepare = lambda world: knows_the_cluster(world) or prepare(world)

    def join(self, world):
        return world.machine.unit()

    def verify(self, world, run):
        if self.code:
            super().verify(world, run)
            return
        run.joined()
        said = "\n".join(run.stderr for run in world.machine.runs)
        for word in self.words:
            assert word in said, f"{word!r} is not in:\n{said}"
        world.assert_joined(self.node)
        if self.check:
            self.check(world, run)


def gives(data, cloud=metadata.Aws, **options):
    """This is the user data; a function is called with the world."""
    return lambda world: world.enter_cloud(cloud, user_data=data(world) if callable(data) else data, **options) and None
