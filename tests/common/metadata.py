# SPDX-License-Identifier: Apache-2.0
"""Scripted metadata services: one class for each cloud, as strict as the real one.

Exact method, path, query and headers, or the answer that the cloud gives then. Healthy by default; tests give `user_data`, `token`
(the narrower place, where the cloud has one) and `items`, or put an action in front of the healthy answer with `on(kind, action)`
(see faults.py), kind being session, user-data, token or the path. Everything that arrives is recorded; what no client may ever send
is in `violations`.
"""

import base64
import itertools
import json

from . import endpoint
from .endpoint import Reply

LINK_LOCAL = "169.254.169.254"
TOKEN_KEY = "node-bootstrap-token"
NODE = "cloud-1"                # the machine's name in the cloud
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "via")
_sessions = itertools.count(1)


def text(data, code=200):
    return Reply(code, data if isinstance(data, bytes) else data.encode(), {"Content-Type": "text/plain"})


def error(code, words="error"):
    return Reply(code, f"<html><head><title>{code} - {words}</title></head></html>".encode(), {"Content-Type": "text/html"})


class Request(endpoint.Request):
    @property
    def kind(self):
        return self.connection.server.kind_of(self)


class Service(endpoint.Endpoint):
    """A cloud without headers, sessions and encodings; what differs is in the subclasses."""

    request_type = Request
    provider = title = None     # as in metadata.provider, and for people
    address, port = LINK_LOCAL, 80
    names = ()                  # in Host, besides the address
    dmi = {}                    # by which it is recognised
    user_data_path = None
    token_path = None           # the narrower place
    node_name_path = None
    nothing = 404               # what it says when there is no user data
    provider_id = None          # as the cloud's controller manager has it

    def __init__(self, address=None, port=None, *, user_data=None, token=None):
        super().__init__((address or self.address, port or self.port))
        self.user_data = user_data.encode() if isinstance(user_data, str) else user_data
        self.token = token
        self.node_name = NODE
        self.items = {}         # path -> text, besides

    def become(self, user_data):
        """Forgets what was scripted: from the next connection on it is healthy, and this is the user data."""
        with self._lock:
            self._rules.clear()
        self.on_connect, self.user_data, self.token = None, user_data, None

    def kind_of(self, request):
        return {self.user_data_path: "user-data", self.token_path: "token"}.get(request.path, request.path)

    def answer(self, request):
        self._inspect(request)
        return super().answer(request)

    def _inspect(self, request):
        where = f"{request.method} {request.target}"
        host = request.headers.get("host")
        plain = f"[{self.host}]" if ":" in self.host else self.host
        if host not in (plain, f"{plain}:{self.port}", *self.names):
            self.violations.append(f"Host is {host!r}: {where}")
        for name in (*FORWARDED, "cookie", "proxy-connection", "proxy-authorization", "range"):
            if name in request.headers:
                self.violations.append(f"{name} is sent: {where}")
        if not request.target.startswith("/"):
            self.violations.append(f"asked as a proxy: {where}")
        if request.body:
            self.violations.append(f"a body is sent: {where}")

    def healthy(self, request):
        return self.refuse(request) or self.find(request)

    def refuse(self, request):
        """A reply where method or headers are not what they must be."""
        return None if request.method == "GET" else error(405, "Method Not Allowed")

    def find(self, request):
        if request.path == self.user_data_path and not request.query:
            return error(404, "Not Found") if self.user_data is None and self.nothing == 404 \
                else text(b"" if self.user_data is None else self.encode(self.user_data), self.nothing if self.user_data is None else 200)
        value = {self.token_path: self.token, self.node_name_path: self.node_name, **self.items}.get(request.path)
        return error(404, "Not Found") if value is None or request.query else text(value)

    def encode(self, data):
        return data


class Session(Service):
    """A cloud that requires a session token, which a PUT request returns."""

    session_path = None
    lifetime_header = token_header = None
    longest = 21600
    unauthorized = 401

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.sessions = set()

    def kind_of(self, request):
        return "session" if request.path == self.session_path else super().kind_of(request)

    def expire(self):
        """Invalidates all earlier sessions."""
        self.sessions.clear()

    def refuse(self, request):
        if any(name in request.headers for name in FORWARDED):
            return error(403, "Forbidden")
        if request.path == self.session_path:
            if request.method != "PUT":
                return error(405, "Method Not Allowed")
            lifetime = request.headers.get(self.lifetime_header, "")
            if not lifetime.isdigit() or not 1 <= int(lifetime) <= self.longest:
                return error(400, "Bad Request")
            session = f"session-{next(_sessions)}-AQAEAFo3xYZ=="
            self.sessions.add(session)
            return text(session)
        if request.method != "GET":
            return error(405, "Method Not Allowed")
        return None if request.headers.get(self.token_header) in self.sessions else error(self.unauthorized, "Unauthorized")


# The clouds.

class Aws(Session):
    provider, title = "aws", "Amazon EC2"
    address6 = "fd00:ec2::254"
    dmi = {"sys_vendor": "Amazon EC2", "bios_vendor": "Amazon EC2", "product_name": "m7i.large", "board_vendor": "Amazon EC2"}
    session_path = "/latest/api/token"
    lifetime_header, token_header = "x-aws-ec2-metadata-token-ttl-seconds", "x-aws-ec2-metadata-token"
    user_data_path = "/latest/user-data"
    token_path = f"/latest/meta-data/tags/instance/{TOKEN_KEY}"
    node_name_path = "/latest/meta-data/local-hostname"
    provider_id = "aws:///eu-west-1a/i-0a1b2c3d4e5f60718"

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.items = {"/latest/meta-data/instance-id": "i-0a1b2c3d4e5f60718", "/latest/meta-data/placement/availability-zone": "eu-west-1a",
                      "/latest/meta-data/placement/region": "eu-west-1"}


class Alibaba(Session):
    """In the hardened mode: 403 without a session."""
    provider, title = "alibaba", "Alibaba Cloud"
    address = "100.100.100.200"
    dmi = {"sys_vendor": "Alibaba Cloud", "product_name": "Alibaba Cloud ECS"}
    session_path = "/latest/api/token"
    lifetime_header, token_header = "x-aliyun-ecs-metadata-token-ttl-seconds", "x-aliyun-ecs-metadata-token"
    unauthorized = 403
    user_data_path = "/latest/user-data"
    node_name_path = "/latest/meta-data/hostname"
    provider_id = "alicloud://cn-hangzhou.i-bp1a2b3c4d5e6f7g8h9i"

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.items = {"/latest/meta-data/instance-id": "i-bp1a2b3c4d5e6f7g8h9i", "/latest/meta-data/region-id": "cn-hangzhou"}


class Akamai(Session):
    provider, title = "akamai", "Akamai (Linode)"
    dmi = {"sys_vendor": "Akamai"}
    session_path = "/v1/token"
    lifetime_header, token_header = "metadata-token-expiry-seconds", "metadata-token"
    longest = 86400
    user_data_path = "/v1/user-data"
    provider_id = "linode://12345678"

    def find(self, request):
        if request.path == "/v1/instance" and not request.query:
            fields = {"id": 12345678, "label": self.node_name, "region": "eu-central", "tags": []}
            if "application/json" in request.headers.get("accept", ""):
                return Reply(200, json.dumps(fields).encode(), {"Content-Type": "application/json"})
            return text("".join(f"{key}: {value}\n" for key, value in fields.items() if value))
        return super().find(request)

    def encode(self, data):
        return base64.b64encode(data)


class Gce(Service):
    provider, title = "gce", "Google Compute Engine"
    names = ("metadata.google.internal",)
    dmi = {"sys_vendor": "Google", "product_name": "Google Compute Engine", "bios_vendor": "Google"}
    root = "/computeMetadata/v1/"
    user_data_path = root + "instance/attributes/user-data"
    token_path = root + f"instance/attributes/{TOKEN_KEY}"
    node_name_path = root + "instance/name"
    provider_id = f"gce://project-1/europe-west1-b/{NODE}"

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.items = {self.root + "project/project-id": "project-1", self.root + "instance/zone": "projects/123456789/zones/europe-west1-b",
                      self.root + "instance/id": "4520031799277581759"}

    def refuse(self, request):
        if request.headers.get("metadata-flavor") != "Google" or any(name in request.headers for name in FORWARDED):
            return error(403, "Forbidden")
        return super().refuse(request)

    def find(self, request):
        reply = super().find(request)
        reply.headers.update({"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"})
        return reply


class Azure(Service):
    provider, title = "azure", "Microsoft Azure"
    dmi = {"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine", "chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77"}
    user_data_path = "/metadata/instance/compute/userData"
    token_path = "/metadata/instance/compute/tagsList"
    node_name_path = "/metadata/instance/compute/osProfile/computerName"
    nothing = 200
    versions = ("2021-01-01", "2021-02-01", "2021-03-01", "2021-05-01", "2021-08-01", "2021-10-01", "2021-11-01", "2021-12-13", "2023-07-01")
    resource = f"/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/Group-1/providers/Microsoft.Compute/virtualMachines/{NODE}"
    provider_id = "azure://" + resource.replace("Group-1", "group-1")

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.items = {"/metadata/instance/compute/resourceId": self.resource}

    def refuse(self, request):
        if request.headers.get("metadata", "").lower() != "true":
            return Reply(400, b'{"error": "Bad request. Required metadata header not specified"}')
        if any(name in request.headers for name in FORWARDED):
            return Reply(400, b'{"error": "Bad request. X-Forwarded-For is not allowed"}')
        if request.query.get("api-version") not in self.versions:
            return Reply(400, b'{"error": "Bad request. api-version is invalid or was not specified in the request."}')
        return super().refuse(request)

    def find(self, request):
        form = request.query.get("format", "json")
        request.query = {}
        if request.path == self.token_path:
            tags = [{"name": "team", "value": "blue"}, *([{"name": TOKEN_KEY, "value": self.token}] if self.token else [])]
            return Reply(200, json.dumps(tags).encode()) if form == "json" else Reply(400, b'{"error": "Bad request. Format is invalid"}')
        if form != "text":      # a leaf has no other
            return Reply(400, b'{"error": "Bad request. Leaf nodes need format=text"}')
        return super().find(request)

    def encode(self, data):
        return base64.b64encode(data)


class OpenStack(Service):
    provider, title = "openstack", "OpenStack"
    dmi = {"sys_vendor": "OpenStack Foundation", "product_name": "OpenStack Nova"}
    user_data_path = "/openstack/latest/user_data"
    token_path = "/openstack/latest/meta_data.json"
    provider_id = "openstack:///8bb7a1c9-0d4f-4c47-a6f1-c5ad0c1d8a6a"

    def find(self, request):
        if request.path == self.token_path and not request.query:
            meta = {"role": "worker", **({TOKEN_KEY: self.token} if self.token else {})}
            return Reply(200, json.dumps({"uuid": self.provider_id[len("openstack:///"):], "name": self.node_name, "hostname": self.node_name + ".novalocal",
                                          "availability_zone": "nova", "meta": meta}).encode())
        return super().find(request)


class DigitalOcean(Service):
    provider, title = "digitalocean", "DigitalOcean"
    dmi = {"sys_vendor": "DigitalOcean", "product_name": "Droplet"}
    user_data_path = "/metadata/v1/user-data"
    node_name_path = "/metadata/v1/hostname"
    provider_id = "digitalocean://2756294"

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.items = {"/metadata/v1/id": "2756294"}


class Hetzner(Service):
    provider, title = "hetzner", "Hetzner Cloud"
    dmi = {"sys_vendor": "Hetzner", "product_name": "vServer", "bios_vendor": "Hetzner"}
    user_data_path = "/hetzner/v1/userdata"
    node_name_path = "/hetzner/v1/metadata/hostname"
    nothing = 204
    provider_id = "hcloud://987654"

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.items = {"/hetzner/v1/metadata/instance-id": "987654"}


class Oracle(Service):
    provider, title = "oracle", "Oracle Cloud"
    dmi = {"sys_vendor": "QEMU", "product_name": "Standard PC (i440FX + PIIX, 1996)", "chassis_asset_tag": "OracleCloud.com"}
    user_data_path = "/opc/v2/instance/metadata/user_data"
    token_path = f"/opc/v2/instance/metadata/{TOKEN_KEY}"
    node_name_path = "/opc/v2/instance/hostname"
    provider_id = "oci://ocid1.instance.oc1.eu-frankfurt-1.antheljtexample"

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.items = {"/opc/v2/instance/id": self.provider_id[len("oci://"):], "/opc/v2/instance/displayName": NODE}

    def refuse(self, request):
        if request.headers.get("authorization") != "Bearer Oracle" or any(name in request.headers for name in FORWARDED):
            return error(403, "Forbidden")
        return super().refuse(request)

    def encode(self, data):
        return base64.b64encode(data)


class Exoscale(Service):
    provider, title = "exoscale", "Exoscale"
    dmi = {"sys_vendor": "Exoscale", "product_name": "Exoscale Compute Platform"}
    user_data_path = "/1.0/user-data"
    node_name_path = "/1.0/meta-data/local-hostname"
    provider_id = "exoscale://c19542b7-d269-4bd4-bf9b-2cae36de7a5e"

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.items = {"/1.0/meta-data/instance-id": self.provider_id[len("exoscale://"):]}


class Vultr(Service):
    provider, title = "vultr", "Vultr"
    dmi = {"sys_vendor": "Vultr", "product_name": "VC2"}
    user_data_path = "/user-data/user-data"
    node_name_path = "/v1/hostname"
    provider_id = "vultr://cb676a46-66fd-4dfb-b839-443f2e6c0b60"

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.items = {"/v1/instance-v2-id": self.provider_id[len("vultr://"):], "/v1/instanceid": "576965"}


class UpCloud(Service):
    provider, title = "upcloud", "UpCloud"
    dmi = {"sys_vendor": "UpCloud"}
    user_data_path = "/metadata/v1/user_data"
    node_name_path = "/metadata/v1/hostname"
    provider_id = "upcloud:////00322b68-0096-4042-9406-faad61922128"

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.items = {"/metadata/v1/instance_id": "00322b68-0096-4042-9406-faad61922128"}


ALL = (Aws, Gce, Azure, OpenStack, DigitalOcean, Hetzner, Oracle, Exoscale, Vultr, Alibaba, Akamai, UpCloud)
