# SPDX-License-Identifier: Apache-2.0
"""Lets tests/run run failed tests once more, when no other test runs: a machine that others use, too, stops for seconds at a time.

What fails each time still fails, and what has passed only then is printed.
"""

from pathlib import Path

MAX = 3     # more is no coincidence


def pytest_addoption(parser):
    parser.addoption("--failed", type=Path, metavar="FILE", help="run only the tests that FILE names, if it exists; write those that fail to it")


def pytest_configure(config):
    file = config.option.failed
    config.again = file.read_text().splitlines() if file and file.exists() else []
    config.may_run_again = True


def pytest_collection_modifyitems(config, items):
    if config.again:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in config.again])
        items[:] = [item for item in items if item.nodeid in config.again]


def pytest_terminal_summary(terminalreporter, config):
    failed = sorted({without_group(report.nodeid) for kind in ("failed", "error") for report in terminalreporter.getreports(kind)})
    for name in config.again:
        terminalreporter.write_line(f"once more: {'failed' if name in failed else 'passed'}: {name}")
    if config.option.failed and not config.again and config.may_run_again and 0 < len(failed) <= MAX:
        config.option.failed.write_text("".join(f"{name}\n" for name in failed))


def without_group(name):
    """pytest-xdist appends "@" and the group."""
    return name[:name.rindex("@")] if name.rfind("@") > name.rfind("]") else name
