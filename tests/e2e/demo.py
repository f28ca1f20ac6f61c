# SPDX-License-Identifier: Apache-2.0
"""e2e.demo [--directory DIRECTORY] [--record FILE] [--package FILE]: what tests/demo runs; its header says what the demo shows. Without
--package, it builds the package of this tree. FILE is relative to DIRECTORY.
"""

import argparse
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path

from common import SOURCE
from .harness import image, isolation, package
from .harness.screen import Screen


def find_package(screen):
    folder = package.cached()
    if folder.exists():
        screen.say(f"[{screen.seconds():4.0f} s] the package is in the cache: {folder.name}")
        return package.package()
    with screen.stage("building the package; the next demo takes it from the cache"):
        return package.package(screen.run)


def find_root(screen):
    path = image.debian_path(image.HOST)
    if path.exists():
        screen.say(f"[{screen.seconds():4.0f} s] Debian for the machines is in the cache: {path.name}")
        return path
    with screen.stage("making Debian for the machines; the next demo takes it from the cache"):
        return image.debian(image.HOST)


def begin(screen, assets):
    screen.say("node-bootstrap joins two machines, which are containers, to a cluster.")
    version = None
    if assets:
        version = subprocess.run([f"{assets}/kubelet", "--version"], check=True, text=True, stdout=subprocess.PIPE).stdout.split()[1]
        screen.say(f"The cluster and kubelet are real: Kubernetes {version}, from {assets}.")
    else:
        screen.say("kubelet is a stand-in here, and the cluster is a small API server that the demo starts.\n"
                   "To use real ones, run `tests/control-plane` first, which builds Kubernetes.")
    screen.say("First, missing packages are installed with apt, the package is built, and Debian for the machines is made.\n"
               "This takes about two minutes the first time, mostly for downloads, and little time later.\n"
               "The demo itself takes 10 s, or 40 s with a real cluster.\n")
    return version


def play(screen, arguments):
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    version = begin(screen, assets)
    with screen.stage("installing missing packages with apt"):
        screen.run([SOURCE / "packaging/dependencies", "build", "container", *(["cluster"] if assets else [])])
    deb = (Path(arguments.package) if arguments.package else find_package(screen)).read_bytes()
    base = find_root(screen)
    from . import demo_story        # needs the packages installed above
    work = isolation.cache() / "mnt"
    isolation.enter(work)
    copy = work / "kube-node-bootstrap.deb"
    copy.write_bytes(deb)
    demo_story.begin(screen, work, base, copy, assets, version).play(arguments.record)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", default=".")
    parser.add_argument("--record", metavar="FILE")
    parser.add_argument("--package", metavar="FILE")
    arguments = parser.parse_args()
    os.chdir(arguments.directory)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        screen = Screen(arguments.record)
    except OSError as error:
        sys.exit(f"--record: {error}")
    try:
        play(screen, arguments)
        end(0)
    except KeyboardInterrupt:
        end(130, "\ninterrupted: the machines and the cluster are removed")
    except subprocess.CalledProcessError as error:
        end(1, f"{error.stdout or ''}\nthe demo FAILED: {error}")
    except AssertionError as error:
        end(1, f"the demo FAILED: {error}")
    except Exception as error:
        traceback.print_exc()
        end(1, f"the demo FAILED: {error}")


def end(status, message=None):
    """Exits without waiting for the threads of the small API server. Processes in the namespaces end with this one."""
    if message:
        print(message, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
