# SPDX-License-Identifier: Apache-2.0
"""What `kubeadm upgrade node` of each version demands of a worker's files and does to them, and what each kubelet demands of its arguments.

Each rule names its source in kubernetes/kubernetes. Those of 1.36 were compared with kubeadm 1.36.3: it refuses what this refuses.
"""

import re

import yaml

FLAGS = "var/lib/kubelet/kubeadm-flags.env"
INSTANCE = "var/lib/kubelet/instance-config.yaml"
CONFIG = "var/lib/kubelet/config.yaml"
PREFIX = "KUBELET_KUBEADM_ARGS="
ENDPOINT = "container-runtime-endpoint"
VERSIONS = range(20, 38)


class Refused(Exception):
    """kubeadm or kubelet ends with an error, or leaves a kubelet without runtime."""


def read_flags(machine):
    """cmd/kubeadm/app/phases/kubelet/flags.go: ReadKubeletDynamicEnvFile; util/arguments.go: ArgumentsFromCommand"""
    try:
        text = machine.read(FLAGS).strip()
    except FileNotFoundError:
        raise Refused("error reading kubeadm flags file") from None
    if not text.startswith(PREFIX):
        raise Refused("does not contain the expected prefix")
    words = text.removeprefix(PREFIX).strip('"').split()
    if not words:
        raise Refused("no flags found")
    assert all(re.fullmatch("--[a-z-]+=.*", word) for word in words), "kubeadm joins a word without = to the next one, or drops it"
    return [tuple(word.removeprefix("--").split("=", 1)) for word in words]


def write_flags(machine, flags):
    """util/arguments.go: ArgumentsToCommand sorts them"""
    machine.put(FLAGS, f'{PREFIX}"{" ".join(f"--{name}={value}" for name, value in sorted(flags))}"\n', 0o644)


def remove_flags(machine, *names):
    """phases/upgrade: RemoveKubeletArgsFromFile, which also rewrites the file if it has none of them"""
    write_flags(machine, [flag for flag in read_flags(machine) if flag[0] not in names])


def write_instance(machine):
    """phases/upgrade/postupgrade.go: WriteKubeletConfigFiles, without instance-config.yaml (1.34 to 1.36; an error from 1.37 on, #138645)"""
    flags = read_flags(machine)
    endpoint = dict(flags).get(ENDPOINT, "")
    if endpoint:
        write_flags(machine, [flag for flag in flags if flag[0] != ENDPOINT])
    machine.put(INSTANCE, f'containerRuntimeEndpoint: "{endpoint}"\n', 0o644)


def upgrade(machine, minor):
    """`kubeadm upgrade node` on a worker."""
    config = yaml.safe_load(machine.read(CONFIG))           # phases/upgrade/postupgrade.go: it is backed up first
    if 26 <= minor <= 27:                                   # CleanupKubeletDynamicEnvFileContainerRuntime (#112000)
        remove_flags(machine, "container-runtime")
    if minor >= 34:                                         # NodeLocalCRISocket is on by default: KEP-4656
        if minor < 37 and not machine.target(INSTANCE).exists():
            write_instance(machine)
        try:
            instance = yaml.safe_load(machine.read(INSTANCE))   # phases/kubelet/config.go: applyKubeletConfigPatchFromFile
        except FileNotFoundError:
            raise Refused("could not read patch file") from None
        if not re.fullmatch("unix:///[^\"]+", instance["containerRuntimeEndpoint"]):
            raise Refused("kubelet's configuration would name no runtime")
        machine.put(CONFIG, yaml.safe_dump({**config, **instance}), 0o644)
    if minor >= 35:                                         # cmd/phases/upgrade/postupgrade.go: runPostUpgrade (#133778, #138645)
        remove_flags(machine, *(["pod-infra-container-image"] if minor == 35 else [ENDPOINT] if minor >= 37 else []))


def start_kubelet(machine, minor):
    """cmd/kubelet/app/options: the arguments of each version"""
    flags = dict(read_flags(machine))
    if ENDPOINT in flags and minor < 24 and flags.get("container-runtime") != "remote":
        raise Refused("kubelet would listen on the socket of the runtime, for Docker")
    if "container-runtime" in flags and minor >= 27:
        raise Refused("unknown flag: --container-runtime")
    if "pod-infra-container-image" in flags and minor >= 35:
        raise Refused("unknown flag: --pod-infra-container-image")
