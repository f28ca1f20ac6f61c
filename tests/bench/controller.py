# SPDX-License-Identifier: Apache-2.0
"""bench.controller BUILD [WHAT...]: what a join waits for the controller, against the scripted API of the integration tests, whose own time
is included. BUILD is a build folder. WHAT is

    answers   each answer takes 25 ms: from the request to its approval
    silent    the watch of requests shows nothing, or a proxy keeps it back until it ends: the same, and whether /readyz says so
    busy      429 on the Secret of another token, for a minute: the same
    failover  50 times for each kind of request: the leader is stopped (SIGSTOP), the request is approved by hand, and another one is made
              with its token
    joins     5,000 joins, each with a token of its own, all at once and then one after the other
    many      10,000 requests: until all are decided, memory, and how long `requests list` takes and how many lines it prints
"""

import itertools
import multiprocessing
import os
import pathlib
import signal
import statistics
import sys
import tempfile
import threading
import time

from common import faults, machine, pki
from common.wait import until
from integration import admin, admin_cluster

machine.BUILD = pathlib.Path(sys.argv[1])
KEY = pki.new_key()     # one for all joins: what is measured does not depend on it


class SlowApi(admin.Api):
    """Each answer takes this many seconds more."""

    seconds = 0.0

    def answer(self, request):
        if request.verb != "watch":
            time.sleep(self.seconds)
        return super().answer(request)


class Run:
    """An API, a controller that leads, and what a test does there."""

    def __init__(self, *options):
        self.folder = tempfile.TemporaryDirectory()
        self.api = SlowApi(pathlib.Path(self.folder.name)).__enter__()
        self.cluster = admin_cluster.Cluster(self.api)
        self.context = admin_cluster.controllers(self.api)
        self.begin = self.context.__enter__()
        self.options = options

    def __enter__(self):
        return self

    def start(self, timeout=60):
        controller = self.begin(*self.options)
        controller.wait_line("is the leader", timeout)
        return controller

    def __exit__(self, *_):
        self.context.__exit__(None, None, None)
        self.api.__exit__(None, None, None)
        self.folder.cleanup()

    def join(self, name, token_id, timeout=120):
        self.cluster.token(token_id, name)
        time.sleep(0.2)         # the watch of tokens has shown it, as it has where an administrator created it before
        begin = time.monotonic()
        self.cluster.request(name, name, token_id)
        self.cluster.await_approval(name, timeout)
        return time.monotonic() - begin


def describe(times):
    return f"median {1000 * statistics.median(times):.0f} ms, least {1000 * min(times):.0f}, most {1000 * max(times):.0f}"


def answers():
    with Run() as run:
        run.start()
        for delay in 0.0, 0.025:
            run.api.seconds = delay
            times = [run.join(f"n{1000 * delay:.0f}-{i}", f"{'a' if delay else 'b'}{i:05}") for i in range(20)]
            print(f"answers that take {1000 * delay:.0f} ms more: a bound decision: {describe(times)}", flush=True)


def silent():
    for kind in admin_cluster.silent, admin_cluster.buffering:
        with Run() as run:
            run.api.on("watch certificatesigningrequests", kind(run.api))
            served = admin_cluster.Served(run.begin)
            served.controller.wait_line("is the leader", 60)
            seconds = run.join("n1", "aaaaaa")
            until(lambda served=served: served.get("/readyz")[0] == 503, "it is unready", 20)
            print(f"a watch that is {kind.__name__}: a join after {seconds:.1f} s; /readyz: {served.get('/readyz')}", flush=True)


def busy():
    with Run() as run:
        reply = faults.error(429, "TooManyRequests", "Too many requests, please try again later.", Retry_After="60")
        run.api.on("get secrets", lambda request: reply(request) if request.path.endswith("-aaaaaa") else None)
        run.start()
        run.cluster.token("aaaaaa", "busy")
        run.cluster.request("busy", "busy")
        run.api.objects.wait(lambda: [request for request in run.api.seen("get secrets") if request.path.endswith("-aaaaaa")])
        print(f"429 on another Secret: {describe([run.join(f'n{i}', f'b{i:05}') for i in range(10)])}", flush=True)


BY_HAND = {
    "approved": {},
    "malformed, so that it would not be approved": {"orgs": (pki.NODES, "more")},
    "with an odd name": {"name": "a%20b"},
}


def fail_over(case):
    """One of them: how long another leader takes, and whether the thief is refused, told of, and counted. The thief's request is named so
    that it is listed first."""
    request = {"name": "by-hand", **BY_HAND[case]}
    with Run() as run:
        first = run.start()
        second = admin_cluster.Served(run.begin)
        second.controller.wait_line("is on standby", 60)
        run.api.objects.wait(lambda: len(run.api.seen("watch certificatesigningrequests")) >= 2 and len(run.api.seen("watch secrets")) >= 2)
        first.process.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        run.cluster.token("aaaaaa", "n1")
        run.cluster.request("0-thief", "n1")
        by_hand = run.cluster.request(request.pop("name"), "n1", approved=True, **request)
        second.controller.wait_line("is the leader now", 60)
        seconds = time.monotonic() - begin
        run.cluster.await_event("0-thief", "TokenUsed", 60)
        run.api.objects.wait(lambda: run.cluster.holder("aaaaaa") == admin_cluster.holder_of(by_hand), 60)
        # What NodeBootstrapTokenUsedTwice and NodeBootstrapApprovedByOthers watch.
        counters = [admin_cluster.decisions("pending", "TokenUsed"), "approved_by_others_total"]
        until(lambda: all(second.metric(name) for name in counters), "the counters say so", 20)
        first.process.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        return seconds, run.cluster.conditions("0-thief") == []


def failover(n=50):
    """Ten at a time, since each waits for the Lease most of the time."""
    for case in BY_HAND:
        with multiprocessing.Pool(10) as pool:
            found = pool.map(fail_over, [case] * n)
        print(f"failover, and a request by hand {case}: {sum(refused for _, refused in found)} of {n} thieves refused, with an Event and "
              f"counters, and the claim is the right one; another leader: {describe([seconds for seconds, _ in found])}", flush=True)


def joins(n=5000, n_single=200):
    """The half of the time is the scripted API's own, which also makes keys and requests before."""
    pem = {i: pki.sign_csr(KEY, pki.node_user(f"n{i}")) for i in range(n + n_single)}
    with Run() as run:
        controller = run.start()
        n_approved = itertools.count()
        all_approved = threading.Event()
        run.api.objects.on_change.append(
            lambda _, obj: "Approved" in str(obj.get("status", {}).get("conditions")) and next(n_approved) == n - 1 and all_approved.set())
        for i in pem:
            run.cluster.token(f"{i:06}", f"n{i}")
        begin = time.monotonic()
        for i in range(n):
            run.cluster.request(f"n{i}", f"n{i}", f"{i:06}", pem=pem[i])
        submitted = time.monotonic() - begin
        assert all_approved.wait(3600)
        seconds = time.monotonic() - begin
        print(f"{n} joins at once: submitted after {submitted:.1f} s, approved after {seconds:.1f} s, {n / seconds:.0f}/s; "
              f"{memory(controller.process.pid)}", flush=True)
        times = []
        for i in range(n, n + n_single):
            begin = time.monotonic()
            run.cluster.request(f"n{i}", f"n{i}", f"{i:06}", pem=pem[i])
            run.cluster.await_approval(f"n{i}", 60)
            times.append(time.monotonic() - begin)
        print(f"{n_single} joins among these, one after the other: {describe(times)}", flush=True)


def memory(pid):
    """Resident memory of the process itself."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return f"{next(int(line.split()[1]) for line in lines if line.startswith('VmRSS')) / 1024:.1f} MiB"


def many(n=10000):
    with Run() as run:
        pem = pki.sign_csr(pki.new_key(), pki.node_user("other"))
        run.cluster.token("aaaaaa", "n1")
        for i in range(n):
            run.cluster.request(f"flood{i:06}", "other", pem=pem, created=-i // 10)
        begin = time.monotonic()
        controller = run.start(600)
        print(f"{n} requests: the leader after {time.monotonic() - begin:.1f} s, {memory(controller.process.pid)}", flush=True)
        print(f"{n} requests: a join takes {1000 * run.join('n1', 'bbbbbb'):.0f} ms", flush=True)
        begin = time.monotonic()
        until(lambda: len({request.path for request in run.api.seen("get certificatesigningrequests")}) >= n, "all are judged", 600, pause=0.5)
        print(f"{n} requests: all are judged after {time.monotonic() - begin:.1f} s more, {memory(controller.process.pid)}", flush=True)
        begin = time.monotonic()
        done = run.api.run("requests", "list")
        print(f"{n} requests: `requests list` takes {time.monotonic() - begin:.1f} s, and prints {len(done.stdout.splitlines())} lines", flush=True)


for what in sys.argv[2:] or ("answers", "silent", "busy", "failover", "joins", "many"):
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    globals()[what]()
