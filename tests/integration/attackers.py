# SPDX-License-Identifier: Apache-2.0
"""First an attacker answers, later the real server: after any answer of an unverified peer the join waits, says why, and then joins.

The attackers are the rows of tables that describe such answers: a file that has such a table also plays it with `plays()`, so that a new
row is played, too. Each plays until an ordinary confirmation would have been over.
"""

from common import faults
from common.failures import FAILURES
from common.machine import TOKEN

FAST = "+0 x10"
# With pauses of at most 5 s that are at least half of what they may be, 16 attempts of one endpoint take longer than 30 s.
ATTEMPTS = 16
# Nobody answered: nothing was said, and an attempt takes until its timeout.
UNANSWERED = {code for code in FAILURES if code.startswith("endpoint-")} | {"metadata-unreachable"}
# Whoever signed it knows the token.
EVIDENCE = {"ca-pin-mismatch", "cluster-info-unacceptable"}


class Play:
    """First the attacker of a row, then the right cluster at the same addresses."""

    def __init__(self, row):
        self.row, self.name = row, row.name

    def play(self, path):
        path.mkdir()
        world = self.row.world(path)
        try:
            real = self.real(world)
            changes = self.row.prepare(world)
            settings = {**(changes if isinstance(changes, dict) else {}), **self.row.settings, "timeout": "infinity"}
            settings.pop("faketime", None)
            servers = settings.pop("servers", None) or [world.server]
            world.configure(*servers, **{**self.pins(real), **settings})
            run = self.start(world, real)
            run.wait_for_attempts(self.attempts(len(getattr(world.machine, "endpoints", [None]))))
            self.verify_waiting(world, run)
            self.recover(world, real)
            run.wait().joined()
        finally:
            world.close()
        world.machine.check_secret()

    def attempts(self, n_endpoints):
        return 2 if self.row.code in UNANSWERED else ATTEMPTS * n_endpoints

    def verify_waiting(self, world, run):
        assert run.is_running(), run.stderr
        # Where much else runs, the first attempts may end at a time limit, with another code.
        run.wait_until(lambda: self.is_explained(run, self.code(world, run)))
        assert len(run.codes) <= 2 * len(set(run.codes)), f"expected each reason once or twice:\n{run.stderr}"
        assert not any(server.seen("create") or server.seen("client-kubelet") for server in (world.server, *world._more))

    @staticmethod
    def is_explained(run, code):
        return code in run.codes and any(f"node-bootstrap explain {code}" in status for status in run.statuses)

    def code(self, world, run):
        return self.row.code

    def pins(self, real):
        return {"pins": [real.ca.pin]}

    def real(self, world):
        """An unchanged copy of this cluster."""
        real = world.new_cluster()
        real.ca, real.signer, real.bundle = world.cluster.ca, world.cluster.signer, [world.cluster.ca.pem]
        return real

    def start(self, world, real):
        return world.machine.start_join(faketime=FAST)

    def recover(self, world, real):
        for server in (world.server, *world._more):
            hostile = server.cluster
            server.become(real)
            hostile.stop()


class K3sPlay(Play):
    def pins(self, real):
        return {}

    def real(self, world):
        real = super().real(world)
        real.cacerts = world.cluster.cacerts
        return real

    def code(self, world, run):
        """The attacker's answer may match only the row's token."""
        is_other = self.row.code not in run.codes and world.cluster.k10(TOKEN) != world.k10
        return "ca-hash-mismatch" if is_other else self.row.code

    def start(self, world, real):
        """Even if the row has created a token for the attacker's answer, the machine has that of the real cluster."""
        world.k10 = real.k10(TOKEN)
        world.machine.set_credential("token", real.k10(TOKEN))
        world.machine.inspect().joined()
        return super().start(world, real)


class UrlPlay(Play):
    """The attacker replaces the web server that has the document."""

    def pins(self, real):
        return {}

    def recover(self, world, real):
        world.web.become(world.web.cluster)
        world.web.on("any", faults.answer(world.document(), Content_Type="text/yaml"))


class CloudPlay(Play):
    def play(self, path):
        path.mkdir()
        world = self.row.world(path)
        try:
            self.row.prepare(world)
            world.configure(timeout="infinity")
            run = world.machine.start_unit(faketime=FAST)
            run.wait_for_attempts(self.attempts(1))
            self.verify_waiting(world, run)
            self.recover(world, None)
            run.wait().joined()
            world.assert_joined(self.row.node)
        finally:
            world.close()
        world.machine.check_secret()

    def recover(self, world, real):
        if world.cloud is None:
            world.enter_cloud()
        else:
            world.cloud.become(user_data=world.document().encode())


def plays(play, rows, *left_out):
    """The rows of a table that fail without evidence; `left_out` names rows that are not answers, or not of a peer that can change."""
    names = {row.name for row in rows}
    assert names >= set(left_out), f"no such row: {set(left_out) - names}"
    return [play(row) for row in rows if row.code and row.code not in EVIDENCE and row.name not in left_out]
