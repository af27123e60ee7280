#!/usr/bin/python
"""An adoption on a host."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: adopt
short_description: Take over services of a host that were given an allocator by hand
version_added: "0.1.0"
description:
  - Records what services run, as they are. None of them is changed and none is restarted; the agent samples them from then
    on, and a watch or a rollout can build on it.
options:
  name:
    description: What the adoption is called.
    type: str
    default: adopted
  services:
    description: Patterns of services, such as C(tor@*); needed for O(state=adopted).
    type: list
    elements: str
    default: []
  state:
    description:
      - V(adopted) takes the services over where no adoption of this name goes on.
      - V(ended) samples them no more; what was recorded stays.
    type: str
    choices: [adopted, ended]
    default: adopted
extends_documentation_fragment:
  - heaptrial.fleet.program
attributes:
  check_mode:
    description: What would be recorded is told by the program's own C(--dry-run).
    support: full
  diff_mode:
    description: No file is changed.
    support: none
author:
  - The Heaptrial authors (@heaptrial)
"""

EXAMPLES = r"""
- name: Take over what a script migrated
  heaptrial.fleet.adopt:
    name: relays
    services: ["tor@*"]
  register: adopted

- name: Tell which services were left out, and why
  ansible.builtin.debug:
    var: adopted.left_out
"""

RETURN = r"""
arms:
  description: What services run, as the program told when they were taken over.
  returned: where services were taken over, or would be in check mode
  type: list
  elements: dict
left_out:
  description: Services that were not taken over, each with the reason.
  returned: where services were taken over, or would be in check mode
  type: list
  elements: dict
adoption:
  description: What C(heaptrial adopt --list) told of it before the task.
  returned: where there was one
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.heaptrial.fleet.plugins.module_utils import heaptrial


def main():
    options = {
        "name": {"type": "str", "default": "adopted"},
        "services": {"type": "list", "elements": "str", "default": []},
        "state": {"type": "str", "choices": ["adopted", "ended"], "default": "adopted"},
    }
    options.update(heaptrial.PROGRAM)
    module = AnsibleModule(options, supports_check_mode=True, required_if=[("state", "adopted", ("services",))])
    name = module.params["name"]
    adoptions = heaptrial.run(module, ["adopt", "--list"])[1]["adoptions"]
    # The name of one that has ended is free: the last of them is meant.
    found = next((adoption for adoption in reversed(adoptions) if adoption["adoption"] == name), None)
    goes_on = bool(found) and not found["ended"]
    result = {"changed": goes_on != (module.params["state"] == "adopted")}
    if found:
        result["adoption"] = found
    if not result["changed"]:
        module.exit_json(**result)
    if not goes_on:
        dry = ["--dry-run"] if module.check_mode else []
        told = heaptrial.run(module, ["adopt", "--name", name] + dry + ["--"] + module.params["services"])[1]
        result.update(arms=told["arms"], left_out=told["left_out"])
    elif not module.check_mode:
        heaptrial.run(module, ["adopt", "--end", name])
    module.exit_json(**result)


if __name__ == "__main__":
    main()
