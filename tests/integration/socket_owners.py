# SPDX-License-Identifier: Apache-2.0
"""Who has a socket: the processes at the other end of a connection, their users and capabilities."""

# Who has a socket: name, users, capabilities. `net` is the table of a network name space, `wanted` says which of its lines count.
FIND = '''
import os
def find(net, kinds, wanted):
    inodes = set()
    for kind in kinds:
        with open(f"{net}/{kind}") as table:
            inodes |= {fields[9] for fields in map(str.split, list(table)[1:]) if wanted(fields[1].split(":")[1], fields[2].split(":")[1])}
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            links = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
            if int(pid) != os.getpid() and links & {f"socket:[{inode}]" for inode in inodes}:
                with open(f"/proc/{pid}/status") as status:
                    fields = dict(line.rstrip("\\n").split(":\\t", 1) for line in status)
                found.append({name: fields[name] for name in ("Name", "Uid", "Gid", "Groups", "CapPrm", "CapEff", "CapInh", "CapAmb", "NoNewPrivs")})
        except OSError:
            pass        # it has ended meanwhile
    return found
'''
tools = {}
exec(compile(FIND, "FIND", "exec"), tools)      # pylint: disable=exec-used


def assert_unprivileged(owners):
    for owner in owners:
        assert "0" not in owner["Uid"].split() and "0" not in owner["Gid"].split() and owner["Groups"].split() == [], owner
        assert all(int(owner[name], 16) == 0 for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")) and owner["NoNewPrivs"] == "1", owner


class Watch:
    """Inspects the client of each connection before the server answers."""

    def __init__(self, server, net="/proc/self/net"):
        self.owners, self.net = [], net
        server.on_connect = self.look

    def look(self, connection):
        port, own = (f"{number:04X}" for number in (connection.sock.getpeername()[1], connection.server.port))
        self.owners += tools["find"](self.net, ("tcp", "tcp6"), lambda local, remote: (local, remote) == (port, own))
