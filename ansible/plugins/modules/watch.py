#!/usr/bin/python
"""A watch on a host."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: watch
short_description: Watch what services of a host keep, or end that
version_added: "0.1.0"
description:
  - Holds the services of a host to what they used before, after a trial or a rollout or as they are. A timer of the host looks; the
    task begins the watch, or returns which alerts stand.
options:
  name:
    description: The trial or rollout whose services keep a treatment; with O(services) the name of the watch.
    type: str
    required: true
  arm:
    description: The arm that is watched; without it the one that most services run.
    type: str
  services:
    description: Patterns of services that are watched as they are, such as C(tor@*), where no trial names them.
    type: list
    elements: str
    default: []
  options:
    description: Further options of C(heaptrial watch start), such as C(--days) and C(30).
    type: list
    elements: str
    default: []
  state:
    description:
      - V(started) begins the watch where there is none of this name.
      - V(stopped) ends it and removes its timer; its readings stay.
    type: str
    choices: [started, stopped]
    default: started
extends_documentation_fragment:
  - heaptrial.fleet.program
attributes:
  check_mode:
    description: What would be done is reported by the program's own C(--dry-run).
    support: full
  diff_mode:
    description: Shows the files that a start installs.
    support: partial
author:
  - The Heaptrial authors (@heaptrial)
"""

EXAMPLES = r"""
- name: Watch what was rolled out
  heaptrial.fleet.watch:
    name: to-mimalloc
  register: watch
  failed_when: watch is failed or watch.alerts

- name: End it
  heaptrial.fleet.watch:
    name: to-mimalloc
    state: stopped
"""

RETURN = r"""
alerts:
  description: The texts of alerts that stand, and why no check comes by itself where that is so.
  returned: always
  type: list
  elements: str
watch:
  description: What C(heaptrial watch status) has of it before the task.
  returned: where there was one
  type: dict
outcome:
  description: What the program printed.
  returned: where something was done, or would be in check mode
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.heaptrial.fleet.plugins.module_utils import heaptrial


def standing(module, name):
    """What the host reports of the watch, or None."""
    # 1: no check of a watch comes by itself.
    watches = heaptrial.run(module, ["watch", "status"], also=(1,))[1]["watches"]
    return next((watch for watch in watches if watch["watch"] == name), None)


def alerts(found):
    """What is wrong by the watch, as texts."""
    texts = ["%s: %s" % (alert["kind"], alert["text"]) for alert in found["alerts"]]
    return texts + ["no check comes by itself: %s" % fault for fault in found["timer_faults"]]


def what_is_missing(module, name, found):
    """The command that brings the watch to the state, if one is needed."""
    if module.params["state"] == "stopped":
        return ["watch", "stop", name, "--yes"] if found else None
    if found:
        return None
    words = ["watch", "start"] + (module.params["services"] or [name]) + ["--name", name, "--yes"]
    words += ["--arm", module.params["arm"]] if module.params["arm"] else []
    return words + module.params["options"]


def main():
    options = {
        "name": {"type": "str", "required": True},
        "arm": {"type": "str"},
        "services": {"type": "list", "elements": "str", "default": []},
        "options": {"type": "list", "elements": "str", "default": []},
        "state": {"type": "str", "choices": ["started", "stopped"], "default": "started"},
    }
    options.update(heaptrial.PROGRAM)
    module = AnsibleModule(options, supports_check_mode=True)
    name = module.params["name"]
    found = standing(module, name)
    result = {"changed": False, "alerts": alerts(found) if found else []}
    if found:
        result["watch"] = found
    words = what_is_missing(module, name, found)
    if words is None:
        module.exit_json(**result)
    result["changed"] = True
    if module._diff and words[1] == "start":
        _code, text, _error = module.run_command([module.params["program"]] + words + ["--dry-run"])
        result["diff"] = {"prepared": text}
    if module.check_mode:
        words.append("--dry-run")
    result["outcome"] = heaptrial.run(module, words)[1]
    module.exit_json(**result)


if __name__ == "__main__":
    main()
