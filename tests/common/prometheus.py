# SPDX-License-Identifier: Apache-2.0
"""Metrics in Prometheus: how it reads them, which alerts fire, and what a query returns."""

import functools
import re
import subprocess

import yaml
from prometheus_client.parser import text_string_to_metric_families

from . import SOURCE

FOLDER = SOURCE / "packaging/prometheus"
NODE_ALERTS = FOLDER / "node-alerts.yaml"
REPORT = "node_bootstrap_report_timestamp_seconds"
MTIME = 'node_textfile_mtime_seconds{file="/srv/node-bootstrap.prom"}'      # node_exporter's
MINUTES = 60


def promtool(*arguments, text=None):
    done = subprocess.run(["promtool", *map(str, arguments)], check=False, text=True, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, f"{done.stdout}\n{text or ''}"


@functools.cache
def check(text):
    promtool("check", "metrics", text=text)


def read(text):
    """{series: value}, such as 'name{label="value"}', read by promtool and by python3-prometheus-client."""
    check(re.sub(r" [\d.e+-]+$", " 1", text, flags=re.M))      # once for all values: it takes long to start
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type in ("gauge", "counter", "histogram"), family
        for sample in family.samples:
            labels = ",".join(f'{key}="{value}"' for key, value in sample.labels.items() if value)
            series = f"{sample.name}{{{labels}}}" if labels else sample.name
            assert series not in found, series
            found[series] = sample.value
    return found


def recorded(found, instance, is_written=True):
    """Series for promtool: what was read, once a minute from the time 0 on; without `is_written`, the file is as old as that."""
    rows = []
    for series, value in {**found, MTIME: found.get(REPORT, 0)}.items():
        name, _, labels = series.partition("{")
        if name.endswith("_timestamp_seconds") or series == MTIME:
            value -= found.get(REPORT, 0)
        step = 60 if series in (REPORT, MTIME) and is_written else 1 if re.search("_(total|bucket|sum|count)$", name) else 0
        rows.append({"series": f'{name}{{instance="{instance}",{labels or "}"}', "values": f"{value:f}+{step}x{MINUTES}"})
    return rows


def query(folder, rows, expected, minutes, rules=()):
    """`expected` has the value of each expression after that time."""
    tests = [{"expr": expression, "eval_time": f"{minutes}m", "exp_samples": [{"labels": "{}", "value": value}]} for expression, value in expected.items()]
    path = folder / "promtool.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(rule) for rule in rules], "evaluation_interval": "1m",
                                    "tests": [{"interval": "1m", "input_series": rows, "promql_expr_test": tests}]}))
    promtool("test", "rules", path)


def assert_fires(folder, found, minutes, *alerts, is_written=True):
    """If a machine reports this for so many minutes, exactly these alerts fire."""
    names = re.findall(r"alert: NodeBootstrap(\w+)", NODE_ALERTS.read_text())
    assert set(alerts) <= set(names)
    expected = {f'count(ALERTS{{alertname="NodeBootstrap{name}",alertstate="firing"}}) or vector(0)': int(name in alerts) for name in names}
    query(folder, recorded(found, "n1", is_written), expected, minutes, [NODE_ALERTS])
