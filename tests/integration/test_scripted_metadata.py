# SPDX-License-Identifier: Apache-2.0
"""The scripted metadata services are as strict as the real ones: without this, the tests of the clouds would show little."""

import base64
import http.client
import json
import socket
import subprocess

import pytest

from common import faults, metadata
from common.namespace import Namespace, Packets
from common.wait import PATIENCE

USER_DATA = "#!/bin/sh\ntrue\n"
GOOD = {     # what a client has to send
    "gce": {"Metadata-Flavor": "Google"}, "azure": {"Metadata": "true"}, "oracle": {"Authorization": "Bearer Oracle"},
}
QUERY = {"azure": "?api-version=2021-01-01&format=text"}
REFUSED = {"aws": 401, "alibaba": 403, "akamai": 401, "gce": 403, "azure": 400, "oracle": 403}


@pytest.fixture(scope="module")
def namespace():
    namespace = Namespace()
    yield namespace
    namespace.close()


@pytest.fixture
def service(namespace, request):
    namespace.reach(request.param.address)
    with namespace.within(lambda: request.param(user_data=USER_DATA, token="t")) as service:
        yield service


def every(condition=lambda cloud: True):
    return pytest.mark.parametrize("service", [cloud for cloud in metadata.ALL if condition(cloud)], indirect=True, ids=lambda cloud: cloud.provider)


def ask(namespace, service, path, headers=None, method="GET"):
    """(status, body, headers)"""
    def connect():
        made = http.client.HTTPConnection(service.address, timeout=PATIENCE)
        made.connect()
        return made
    connection = namespace.within(connect)
    try:
        connection.request(method, path, headers={**GOOD.get(service.provider, {}), **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())
    finally:
        connection.close()


def session(namespace, service, **headers):
    if not isinstance(service, metadata.Session):
        return {}
    status, body, _ = ask(namespace, service, service.session_path, {service.lifetime_header: "300", **headers}, "PUT")
    assert status == 200
    return {service.token_header: body.decode()}


@every()
def test_user_data(namespace, service):
    headers = session(namespace, service)
    path = service.user_data_path + QUERY.get(service.provider, "")
    status, body, _ = ask(namespace, service, path, headers)
    encoded = service.provider in ("azure", "oracle", "akamai")
    assert (status, base64.b64decode(body) if encoded else body) == (200, USER_DATA.encode())
    assert ask(namespace, service, path, headers, "POST")[0] == 405
    assert ask(namespace, service, path + ("&" if "?" in path else "?") + "x=1", headers)[0] in (200 if "?" in path else 404,)
    service.user_data = None
    status, body, _ = ask(namespace, service, path, headers)
    assert (status, body) == (service.nothing, b"") if service.nothing != 404 else status == 404
    assert service.violations == []


@every(lambda cloud: cloud.provider in REFUSED)
def test_header_that_lacks(namespace, service):
    path = service.user_data_path + QUERY.get(service.provider, "")
    assert ask(namespace, service, path, {name: "x" for name in GOOD.get(service.provider, {})})[0] == REFUSED[service.provider]


@every(lambda cloud: cloud.provider in ("aws", "gce", "azure", "oracle"))
def test_forwarded(namespace, service):
    headers = session(namespace, service)
    path = service.user_data_path + QUERY.get(service.provider, "")
    assert ask(namespace, service, path, {**headers, "X-Forwarded-For": "192.0.2.1"})[0] in (400, 403)
    assert len(service.violations) == 1


@every(lambda cloud: issubclass(cloud, metadata.Session))
def test_session(namespace, service):
    """A PUT with a lifetime within the limit opens a session; expire() ends all sessions."""
    for lifetime in ({}, {service.lifetime_header: "0"}, {service.lifetime_header: "86401"}, {service.lifetime_header: "long"}):
        assert ask(namespace, service, service.session_path, lifetime, "PUT")[0] == 400
    assert ask(namespace, service, service.session_path)[0] == 405
    headers = session(namespace, service)
    assert ask(namespace, service, service.user_data_path, headers)[0] == 200
    service.expire()
    assert ask(namespace, service, service.user_data_path, headers)[0] == service.unauthorized


@every(lambda cloud: cloud is metadata.Azure)
@pytest.mark.parametrize("query", ["", "?format=text", "?api-version=2017-01-01&format=text", "?api-version=2021-01-01", "?api-version=2021-01-01&format=json"])
def test_query_of_azure(namespace, service, query):
    assert ask(namespace, service, service.user_data_path + query)[0] == 400


@every(lambda cloud: cloud is metadata.Azure)
def test_tags_of_azure(namespace, service):
    status, body, _ = ask(namespace, service, service.token_path + "?api-version=2021-01-01&format=json")
    assert status == 200 and {"name": metadata.TOKEN_KEY, "value": "t"} in json.loads(body)


@every(lambda cloud: cloud is metadata.Hetzner)
def test_fault(namespace, service):
    service.on("user-data", faults.UNAVAILABLE, times=1)
    assert [ask(namespace, service, service.user_data_path)[0] for _ in range(2)] == [503, 200]
    assert [request.kind for request in service.requests] == ["user-data"] * 2


def test_packets(namespace):
    """Counts each packet, to this machine and to an address that drops it, by UDP and by TCP."""
    namespace.reach(metadata.LINK_LOCAL)
    packets = Packets(namespace)

    def send():
        for target in ((metadata.LINK_LOCAL, 80), ("198.51.100.1", 53)):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.sendto(b"x", target)
        with socket.socket() as sock:
            sock.setblocking(False)
            sock.connect_ex(("198.51.100.2", 80))

    assert packets.sent() == []
    namespace.within(send)
    found = packets.sent()
    packets.close()
    assert {(metadata.LINK_LOCAL, 80), ("198.51.100.1", 53), ("198.51.100.2", 80)} <= set(found)


def test_what_the_machine_sees(namespace):
    namespace.set_dmi(**metadata.Aws.dmi)
    namespace.set_kernel_line("ignition.platform.id=aws")

    def read(path):
        return subprocess.run([*namespace.enter, "cat", path], stdout=subprocess.PIPE, check=True, text=True).stdout

    assert read("/sys/class/dmi/id/sys_vendor") == "Amazon EC2\n"
    assert read("/proc/cmdline") == "ignition.platform.id=aws\n"
