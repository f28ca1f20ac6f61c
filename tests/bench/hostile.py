# SPDX-License-Identifier: Apache-2.0
"""bench.hostile [--rounds N] [PROGRAM...]: what unverified servers cost a join, as a table.

Rows with good endpoints only are for comparison. In the others, the first endpoint of the scripted cluster does what the row says, and the
second one is good. The columns are wall time, CPU time of all processes, and the largest resident set of one process; all are medians.
PROGRAM is node-bootstrap, by default that of build/. With several programs, each round runs all of them, one after the other. The last rows
have no good endpoint: they show the time from SIGTERM to the end of the join.
"""

import argparse
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time

from common import SOURCE, machine
from common.passed import make_recorder, with_passed
from common.wait import until
from integration import handshakes

PATIENCE = 60


def elsewhere(world):
    world.cluster.server = world.endpoint().url


def nothing(world):
    pass


def first_copy(action):
    def prepare(world):
        world.server.on_connect = action
    return prepare


def second_copy(action):
    def prepare(world):
        elsewhere(world)
        world.server.on_connect = handshakes.from_connection(2, action)
    return prepare


ATTACKS = [
    ("RSA of 64 kbit", handshakes.huge_rsa()),
    ("DHE of 64 kbit", handshakes.huge_dhe()),
    ("chain of 15 MiB", handshakes.huge_chain()),
    ("silent after ServerHello", handshakes.silent_after_hello),
    ("drip", handshakes.drip),
]
ROWS = [
    ("one good endpoint alone", nothing, False),
    ("two good endpoints", nothing, True),
    *((f"{name}, first copy", first_copy(action), True) for name, action in ATTACKS),
    ("two good endpoints, server elsewhere", elsewhere, True),
    *((f"{name}, second copy", second_copy(action), True) for name, action in ATTACKS),
]


def start(command, world, servers):
    world.machine.configure(*servers)
    install = pathlib.Path(command[-1]).parent.parent / "install/install"       # of the same build
    environment = {"env": world.machine.environment, "stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([install, *world.machine.install_words(f"--program={make_recorder(world.machine.path)}")], check=False, **environment)
    return subprocess.Popen([*with_passed(world.machine.path / "passed"), *command, "join", f"--config-directory={world.machine.etc}"], text=True,
                            stdout=subprocess.PIPE, start_new_session=True, **environment)


def finish(child):
    """What measure.c says: (microseconds, microseconds of CPU, KiB); None where it has not joined."""
    try:
        output, _ = child.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return None
    *numbers, status = map(int, output.split())
    return numbers if status == 0 else None


def play(measure, program, prepare, has_second):
    with tempfile.TemporaryDirectory() as folder:
        world = machine.World(pathlib.Path(folder))
        try:
            good = world.endpoint() if has_second else None
            prepare(world)
            return finish(start([measure, program], world, [world.server, *([good] if good else [])]))
        finally:
            world.close()


def stop(program, action):
    """Milliseconds from SIGTERM to the end."""
    with tempfile.TemporaryDirectory() as folder:
        world = machine.World(pathlib.Path(folder))
        try:
            world.server.on_connect = action
            child = start([program], world, [world.server])
            until(lambda: any(getattr(connection, "is_bombed", False) for connection in world.server.connections), "the attack begins", pause=0.01)
            begin = time.monotonic()
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                child.kill()
                return None
            return (time.monotonic() - begin) * 1000
        finally:
            world.close()


def median(values):
    values = [value for value in values if value is not None]
    return statistics.median(values) if values else None


def text(values):
    values = [value for value in values if value]
    if not values:
        return "did not join in 60 s"
    wall, cpu, memory = (statistics.median(column) for column in zip(*values))
    return f"{wall / 1000:8.1f} ms {cpu / 1000:8.1f} ms CPU {memory / 1024:6.1f} MiB"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("programs", nargs="*", default=[str(SOURCE / "build/src/cli/node-bootstrap")])
    options = parser.parse_args()
    folder = tempfile.TemporaryDirectory()
    measure = f"{folder.name}/measure"
    subprocess.run(["cc", "-O2", "-o", measure, SOURCE / "tests/bench/measure.c"], check=True)
    for name, prepare, has_second in ROWS:
        measured = {program: [] for program in options.programs}
        for _ in range(options.rounds):
            for program in options.programs:
                if [] == measured[program] or measured[program][-1]:
                    measured[program].append(play(measure, program, prepare, has_second))
        for program in options.programs:
            print(f"{name:45} {text(measured[program])}  {program if len(options.programs) > 1 else ''}", flush=True)
    for program in options.programs:
        value = median([stop(program, handshakes.huge_rsa()) for _ in range(min(3, options.rounds))])
        print(f"{'SIGTERM during RSA of 64 kbit':45} {'not within 60 s' if value is None else f'{value:8.1f} ms'}  {program if len(options.programs) > 1 else ''}")


if __name__ == "__main__":
    main()
