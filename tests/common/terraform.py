# SPDX-License-Identifier: Apache-2.0
"""Renders the templates in packaging/examples/terraform as Terraform's templatefile() does.

They use nothing but `${name}`, which is checked here, so a substitution is exact.
"""

import re

from . import SOURCE

EXAMPLES = SOURCE / "packaging/examples/terraform"
MODULE = "user-data"
FORMS = sorted(path.stem for path in (EXAMPLES / MODULE).glob("*.tftpl"))
CLOUDS = sorted(path.parent.name for path in EXAMPLES.glob("*/main.tf") if path.parent.name != MODULE)


def text_of(name):
    return (EXAMPLES / (name if "/" in name else f"{MODULE}/{name}")).read_text(encoding="ascii")


def render(form, values):
    """The values have the names that the module passes."""
    passed = re.search(r'templatefile\("\$\{path\.module\}/\$\{var\.cluster\.form\}\.tftpl", \{\n(.*?)\}\)', text_of("main.tf"), re.S)[1]
    assert set(re.findall(r"^ +(\w+) +=", passed, re.M)) == set(values)
    template = text_of(f"{form}.tftpl")
    assert set(re.findall(r"\$\{(\w+)\}", template)) == set(values), "each value is used"
    rest = re.sub(r"\$\{\w+\}", "", template)
    assert "$" not in rest and "%" not in rest, "no directive, no escape and no expression"
    return re.sub(r"\$\{(\w+)\}", lambda found: values[found[1]], template)
