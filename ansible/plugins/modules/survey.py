#!/usr/bin/python
"""What a host can give to a trial."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: survey
short_description: Report what a host can give to a trial over several hosts
version_added: "0.1.0"
description:
  - Runs C(heaptrial trial survey) and returns what it writes. Nothing of the services is changed. The allocators of the arms are
    obtained into the program's cache, in check mode as well, since what a preflight says depends on the very build.
  - One round trip for each host. A host whose clock is not that of the control machine fails, and nothing of it is kept.
options:
  description:
    description: The trial's description, a file on the control machine.
    type: str
    required: true
  folder:
    description: Where the survey is kept as C(HOST.json), a folder on the control machine.
    type: path
  clock_seconds:
    description: How far the host's clock may be from that of the control machine.
    type: float
    default: 30
extends_documentation_fragment:
  - heaptrial.fleet.program
  - heaptrial.fleet.program.sources
attributes:
  check_mode:
    description: The survey is made and not kept; the cache of allocators on the host is filled.
    support: partial
  diff_mode:
    description: There is nothing to show.
    support: none
author:
  - The Heaptrial authors (@heaptrial)
"""

EXAMPLES = r"""
- name: Survey the host
  heaptrial.fleet.survey:
    description: five-way.toml
    folder: surveys
"""

RETURN = r"""
survey:
  description: What C(heaptrial trial plan --survey) reads.
  returned: success
  type: dict
clock:
  description: The host's time when it was asked, in seconds since 1970.
  returned: success
  type: float
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.heaptrial.fleet.plugins.module_utils import heaptrial


def main():
    # What happens on the control machine is the action plugin's, which gives the text in place of the file and nothing of the rest.
    options = {
        "description": {"type": "str", "required": True},
        "folder": {"type": "path"},
        "clock_seconds": {"type": "float", "default": 30},
    }
    options.update(heaptrial.PROGRAM)
    options.update(heaptrial.SOURCES)
    module = AnsibleModule(options, supports_check_mode=True)
    clock = time.time()
    path = os.path.join(module.tmpdir, "trial.toml")
    with open(path, "w") as description:
        description.write(module.params["description"])
    words = ["trial", "survey", path] + heaptrial.sources(module)
    survey = heaptrial.run(module, words)[1]
    module.exit_json(changed=False, survey=survey, clock=clock)


if __name__ == "__main__":
    main()
