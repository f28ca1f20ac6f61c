# SPDX-License-Identifier: Apache-2.0
"""bench.controller BUILD [WHAT...]: what a join waits for the controller, against the scripted API of the integration tests, whose own time
is included. BUILD is a build folder. WHAT is

    answers   each answer takes 25 ms: from the request to its approval
    silent    the watch of requests shows nothing: the same, and whether /readyz says so
    busy      429 on the Secret of another token, for a minute: the same
    failover  50 times: the leader is stopped (SIGSTOP), a request is approved by hand, and another one is made with its token
    many      10,000 requests: until all are decided, memory, and how long `requests list` takes and how many lines it prints
"""

import os
import pathlib
import signal
import statistics
import sys
import tempfile
import time

from common import faults, machine, pki
from common.endpoint import Stream
from common.wait import until
from integration import admin, admin_cluster

machine.BUILD = pathlib.Path(sys.argv[1])


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

    def start(self):
        controller = self.begin(*self.options)
        controller.wait_line("is the leader", 60)
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


def show_nothing(api):
    """What a connection that is dead, but not closed, lets through."""
    def wait():
        api.stopping.wait()
        yield from ()
    return Stream(parts=wait())


def silent():
    with Run() as run:
        run.api.on("watch certificatesigningrequests", lambda request: show_nothing(run.api))
        served = admin_cluster.Served(run.begin)
        served.controller.wait_line("is the leader", 60)
        seconds = run.join("n1", "aaaaaa")
        until(lambda: served.get("/readyz")[0] == 503, "it is unready", 20)
        print(f"a silent watch: a join after {seconds:.1f} s; /readyz: {served.get('/readyz')}", flush=True)


def busy():
    with Run() as run:
        reply = faults.error(429, "TooManyRequests", "Too many requests, please try again later.", Retry_After="60")
        run.api.on("get secrets", lambda request: reply(request) if request.path.endswith("-aaaaaa") else None)
        run.start()
        run.cluster.token("aaaaaa", "busy")
        run.cluster.request("busy", "busy")
        run.api.objects.wait(lambda: [request for request in run.api.seen("get secrets") if request.path.endswith("-aaaaaa")])
        print(f"429 on another Secret: {describe([run.join(f'n{i}', f'b{i:05}') for i in range(10)])}", flush=True)


def failover(n=50):
    """The thief's request is named so that it is listed first."""
    n_refused, times = 0, []
    for i in range(n):
        with Run() as run:
            first = run.start()
            second = run.begin()
            second.wait_line("is on standby", 60)
            run.api.objects.wait(lambda run=run: len(run.api.seen("watch certificatesigningrequests")) >= 2 and len(run.api.seen("watch secrets")) >= 2)
            first.process.send_signal(signal.SIGSTOP)
            begin = time.monotonic()
            run.cluster.token("aaaaaa", "n1")
            run.cluster.request("0-thief", "n1")
            by_hand = run.cluster.request("by-hand", "n1", approved=True)
            second.wait_line("is the leader now", 60)
            times.append(time.monotonic() - begin)
            run.cluster.await_event("0-thief", "TokenUsed", 60)
            first.process.send_signal(signal.SIGCONT)
            time.sleep(0.5)
            n_refused += run.cluster.conditions("0-thief") == [] and run.cluster.holder("aaaaaa") == admin_cluster.holder_of(by_hand)
        if i % 10 == 9:
            print(f"failover: {n_refused} of {i + 1} thieves refused, the claim is the right one; another leader: {describe(times)}", flush=True)


def memory(pid):
    """Resident kilobytes of the process itself."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def many(n=10000):
    with Run() as run:
        pem = pki.sign_csr(pki.new_key(), pki.node_user("other"))
        run.cluster.token("aaaaaa", "n1")
        for i in range(n):
            run.cluster.request(f"flood{i:06}", "other", pem=pem, created=-i // 10)
        begin = time.monotonic()
        controller = run.start()
        print(f"{n} requests: the leader after {time.monotonic() - begin:.1f} s, {memory(controller.process.pid)} KiB", flush=True)
        print(f"{n} requests: a join takes {1000 * run.join('n1', 'bbbbbb'):.0f} ms", flush=True)
        begin = time.monotonic()
        run.api.objects.wait(lambda: len({request.path for request in run.api.seen("get certificatesigningrequests")}) >= n, 600)
        print(f"{n} requests: all are judged after {time.monotonic() - begin:.1f} s more, {memory(controller.process.pid)} KiB", flush=True)
        begin = time.monotonic()
        done = run.api.run("requests", "list")
        print(f"{n} requests: `requests list` takes {time.monotonic() - begin:.1f} s, and prints {len(done.stdout.splitlines())} lines", flush=True)


for what in sys.argv[2:] or ("answers", "silent", "busy", "failover", "many"):
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    globals()[what]()
