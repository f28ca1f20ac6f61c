# SPDX-License-Identifier: Apache-2.0
"""Executables out of Debian packages, with the shared libraries that they need: for build-image, build-sysext and sbom."""

import os
import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
# Where an image and an extension say of which Debian and of which packages their libraries are. The former is where scanners look.
OS_RELEASE, STATUS = "os-release", "status.d"
IN_IMAGE = {OS_RELEASE: "etc/os-release", STATUS: "var/lib/dpkg/status.d"}
IN_EXTENSION = {OS_RELEASE: "usr/lib/node-bootstrap/debian/os-release", STATUS: "usr/lib/node-bootstrap/debian/status.d"}
FIELDS = "Package: ${Package}\nStatus: install ok installed\nSource: ${source:Package} (${source:Version})\nVersion: ${Version}\nArchitecture: ${Architecture}\n"


def fail(text):
    sys.exit(f"{Path(sys.argv[0]).name}: {text}")


def output_of(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def build_package(folder, name, **environment):
    """The .deb of this package, built from this tree."""
    done = subprocess.run([TOP / "packaging/build-deb", folder], check=False, stdout=subprocess.DEVNULL, env={**os.environ, **environment})
    if done.returncode != 0:
        fail("build-deb failed")
    return next(Path(folder).glob(f"{name}_*.deb"))


def extract(package, root):
    """Unpacks the package; returns its version, without Debian's revision, and its architecture."""
    subprocess.run(["dpkg-deb", "--extract", package, root], check=True)
    fields = fields_of(output_of("dpkg-deb", "--field", package))
    return fields["Version"].rpartition("-")[0], fields["Architecture"]


def commit_time():
    """Of the last commit, so that two builds of it are alike. In a tree without git that of a file, which is that of the commit if `git archive`
    made the tree. build-deb does the same."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    try:
        return int(subprocess.run(["git", "-C", TOP, "log", "-1", "--format=%ct"], check=True, text=True, capture_output=True).stdout)
    except (OSError, subprocess.CalledProcessError):
        return int((TOP / "meson.build").stat().st_mtime)


def libraries(program):
    """Paths as the loader finds them, the loader included."""
    found = re.findall(r"^\s(?:\S+ => )?(/\S+) \(0x", output_of("ldd", program), re.M)
    if not any("/ld-linux" in path for path in found):
        fail(f"ldd names no loader of {program}")
    return sorted(found)


def packages_of(paths):
    """The package that each of these libraries is from."""
    names = {os.path.realpath(path) for path in paths}
    names |= {name.removeprefix("/usr") for name in names}
    found = subprocess.run(["dpkg-query", "--search", *sorted(names)], check=False, text=True, capture_output=True).stdout
    # "libc6:amd64: /lib/x86_64-linux-gnu/libc.so.6"
    packages = {path: package.split(":")[0] for package, path in (line.split(": ") for line in found.splitlines())}

    def package_of(path):
        real = os.path.realpath(path)
        return packages.get(real) or packages.get(real.removeprefix("/usr"))

    missing = [path for path in paths if not package_of(path)]
    if missing:
        fail(f"in no Debian package: {', '.join(missing)}")
    return {path: package_of(path) for path in paths}


def copyrights(packages):
    """The copyright files of these packages."""
    return sorted({f"/usr/share/doc/{package}/copyright" for package in packages})


def described(package, libraries_from, places):
    """{path: content}: what scanners and packaging/sbom read of this package and of the packages that its libraries are from."""
    texts = [output_of("dpkg-deb", "--show", f"--showformat={FIELDS}", package)]
    texts += [output_of("dpkg-query", "--show", f"--showformat={FIELDS}", name) for name in libraries_from]
    named = {f"{places[STATUS]}/{fields_of(text)['Package']}": text.encode() for text in texts}
    return {places[OS_RELEASE]: Path("/etc/os-release").read_bytes(), **named}


def fields_of(text, separator=": "):
    """Of a control file, or of os-release."""
    return dict(line.split(separator, 1) for line in text.splitlines() if separator in line and not line.startswith(" "))
