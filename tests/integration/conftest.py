# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a scripted cluster with one endpoint, and a machine that is configured for it.

The programs are taken from $NB_BUILDDIR, or from build/ beside the sources.
"""

import math
import os
import pathlib
import shutil
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from common import namespace
from common import machine as machines
from common.failures import FAILURES, MET
from common.wait import until
from . import admin, crash

SIDE_BY_SIDE = 12       # joins at once: nearly all of their time is waiting, if each gets a processor when it wants one

# Fixtures that do the work of a whole module: pytest-xdist (--dist=loadgroup) runs the tests of a module that use one in the same process.
SHARED = {"played", "installed"}

# Codes that only end-to-end tests can cause.
OF_REAL_MACHINES = {"file-restored", "kubelet-active", "kubelet-config-reduced", "kubelet-paths-kept", "machine-copied", "node-name-invalid",
                    "node-renamed", "platform-unreadable",
                    "sandbox-partial", "token-discarded"}


def pytest_addoption(parser):
    parser.addoption("--each-code", action="store_true", help="with all tests: fail if no program has reported a code of failures.def")
    parser.addoption("--only-each-release", action="store_true", help="run only the tests that are marked each_release")


def pytest_configure(config):
    config.addinivalue_line("markers", "each_release: depends on the version of systemd, of libcurl or of a TLS library, or on the kernel")
    try:
        namespace.hide_machine()
    except OSError as error:
        pytest.exit(str(error), 1)


@pytest.hookimpl(optionalhook=True)     # of pytest-xdist
def pytest_testnodedown(node):
    MET.update(getattr(node, "workeroutput", {}).get("met", ()))


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["met"] = sorted(MET)
    elif not_met(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        session.config.may_run_again = False


def pytest_terminal_summary(terminalreporter, config):
    if not_met(config):
        terminalreporter.write_line(f"codes that no program has reported: {' '.join(not_met(config))}", red=True)


def not_met(config):
    return [code for code in FAILURES if code not in MET | OF_REAL_MACHINES] if config.option.each_code and not config.again else []


@pytest.hookimpl(tryfirst=True)     # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config, items):
    if config.option.only_each_release:
        config.hook.pytest_deselected(items=[item for item in items if not item.get_closest_marker("each_release")])
        items[:] = [item for item in items if item.get_closest_marker("each_release")]
    for item in items:
        if SHARED & set(item.fixturenames):
            item.add_marker(pytest.mark.xdist_group(item.module.__name__))
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)     # the longest ones first


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    left = namespace.take_left_files()
    assert not left, "the next test would find these files"


def let_through(folder):
    """pytest closes its folders to others, who then can read no file in them whatever its mode is."""
    for parent in (folder, *folder.parents):
        if parent.is_relative_to(tempfile.gettempdir()) and str(parent) != tempfile.gettempdir():
            parent.chmod(0o711)
    return folder


@pytest.fixture
def tmp_path(tmp_path):
    return let_through(tmp_path)


@pytest.fixture
def world(tmp_path):
    world = machines.World(tmp_path)
    yield world
    world.close()
    world.check()


@pytest.fixture
def machine(world):
    return world.machine


@pytest.fixture
def server(world):
    return world.server


@pytest.fixture
def cluster(world):
    return world.cluster


@pytest.fixture
def api(tmp_path):
    """The API of a cluster, for node-bootstrap-admin."""
    with admin.Api(tmp_path) as api:
        yield api


@pytest.fixture
def token():
    return machines.TOKEN


@pytest.fixture(scope="session")
def strace():
    return shutil.which("strace") or pytest.skip("strace is not installed")


@pytest.fixture(scope="session")
def crash_table():
    """With -s, prints for each command and call how many points were tried, and their outcomes."""
    yield
    for (command, call), outcomes in sorted(crash.TABLE.items()):
        words = ", ".join(f"{outcome} {count}" for outcome, count in sorted(outcomes.items()))
        print(f"\n{command:14} {call:12} {sum(outcomes.values()):4}  {words}", end="")


def has_processor():
    """Whether a further program would run at once. The attempts of too many joins end at their time limits, and are made again."""
    running = pathlib.Path("/proc/loadavg").read_text().split()[3].partition("/")[0]
    return int(running) <= os.cpu_count()


@pytest.fixture(scope="module")
def played(request, tmp_path_factory):
    """Plays the selected cases of the module's tables side by side; `played(case)` waits for one of them."""
    folder = let_through(tmp_path_factory.mktemp("cases"))
    cases = [item.callspec.params["case"] for item in request.session.items
             if item.module is request.module and "case" in getattr(getattr(item, "callspec", None), "params", {})]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        starting, playing = threading.Lock(), []

        def play(case, path):
            with starting:
                until(lambda: not playing or has_processor(), "the case before ends", timeout=math.inf, pause=0.2)
                playing.append(case)
            try:
                case.play(path)
            finally:
                playing.remove(case)

        futures = {id(case): pool.submit(play, case, folder / str(number)) for number, case in enumerate(cases)}
        yield lambda case: futures[id(case)].result()
        pool.shutdown(cancel_futures=True)


def pytest_make_parametrize_id(config, val, argname):
    return getattr(val, "name", None) if argname == "case" else None
