#!/usr/bin/python
"""What a host can give to a trial."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: survey
short_description: Tell what a host can give to a trial over several hosts
version_added: "0.1.0"
description:
  - Runs C(heaptrial trial survey) and returns what it writes. Nothing of the services is changed; the allocators of the
    arms are obtained.
options:
  description:
    description: The trial's description, a file on the host.
    type: path
    required: true
extends_documentation_fragment:
  - heaptrial.fleet.program
  - heaptrial.fleet.program.sources
attributes:
  check_mode:
    description: Nothing is changed in either mode.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
author:
  - The Heaptrial authors (@heaptrial)
"""

EXAMPLES = r"""
- name: Survey the host
  heaptrial.fleet.survey:
    description: /var/lib/heaptrial-fleet/five-way.toml
  register: surveyed
"""

RETURN = r"""
survey:
  description: What C(heaptrial trial plan --survey) reads.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.heaptrial.fleet.plugins.module_utils import heaptrial


def main():
    options = {"description": {"type": "path", "required": True}}
    options.update(heaptrial.PROGRAM)
    options.update(heaptrial.SOURCES)
    module = AnsibleModule(options, supports_check_mode=True)
    words = ["trial", "survey", module.params["description"]] + heaptrial.sources(module)
    survey = heaptrial.run(module, words)[1]
    module.exit_json(changed=False, survey=survey)


if __name__ == "__main__":
    main()
