# SPDX-License-Identifier: Apache-2.0
"""bench.flood BUILD [N...]: how long the controller lets a join wait while one kubelet has N requests for serving certificates pending,
which it may not have. BUILD is a build folder. The API is the scripted one of the integration tests, whose own time is included.

Three joins are measured: before the flood, when the controller begins to judge it, and 20 s later.
"""

import os
import pathlib
import statistics
import sys
import tempfile
import time

from common import csrs, pki
from integration import admin, admin_cluster, admin_serving

os.environ["NB_BUILDDIR"] = sys.argv[1]


def memory(pid):
    """Resident kilobytes of the process itself."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def join(cluster, name):
    cluster.token(name, name)
    begin = time.monotonic()
    cluster.request(name, name, name)
    cluster.await_approval(name, 600)
    return time.monotonic() - begin


def measure(n):
    with tempfile.TemporaryDirectory() as folder, admin.Api(pathlib.Path(folder)) as api:
        cluster = admin_cluster.Cluster(api)
        cluster.policy(**admin_serving.USUAL)
        cluster.node("greedy")
        options = ["--parts=approve-client,approve-serving", *sys.argv[3:]]
        with admin.Running("controller", *options, "--kubeconfig", api.kubeconfig()) as controller:
            controller.wait_line("is the leader", 30)
            alone = statistics.median(join(cluster, f"alone{i}") for i in range(5))
            pem = pki.sign_csr(pki.new_key(), pki.node_user("greedy"))
            for i in range(n):
                cluster.request(f"flood{i:06}", "greedy", user=pki.node_user("greedy"), groups=[pki.NODES], signer=csrs.SERVING, pem=pem)
            first = join(cluster, "first0")
            time.sleep(20)
            second = join(cluster, "second")
            print(f"{n:7} requests: a join takes {1000 * alone:.0f} ms alone, {1000 * first:.0f} ms at the beginning of the flood, "
                  f"{1000 * second:.0f} ms 20 s later; {memory(controller.process.pid)} KiB", flush=True)


for count in sys.argv[2].split(",") if len(sys.argv) > 2 else ("1500", "100000"):
    measure(int(count))
