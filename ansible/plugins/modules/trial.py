#!/usr/bin/python
"""A host's part of a trial."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: trial
short_description: Start, end or revert a host's part of a trial
version_added: "0.1.0"
description:
  - Brings a host's part of a trial to a state. What was cut short is gone on with, whoever began it.
  - Each restart is at the plan's pace and each service is proved; a failure puts the service back and fails the task.
options:
  name:
    description: The trial's name.
    type: str
    required: true
  plan:
    description: The drawn plan, a file on the host; needed for O(state=started).
    type: path
  state:
    description:
      - V(started) gives every service of the host its treatment.
      - V(stopped) ends the trial; services keep what they run.
      - V(reverted) puts every file back as it was.
    type: str
    choices: [started, stopped, reverted]
    default: started
  without:
    description: Services that are given up where they cannot be put back; with O(state=reverted).
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - heaptrial.fleet.program
  - heaptrial.fleet.program.sources
attributes:
  check_mode:
    description: What would be done is reported by the program's own C(--dry-run).
    support: full
  diff_mode:
    description: Shows the files that a start writes.
    support: partial
author:
  - The Heaptrial authors (@heaptrial)
"""

EXAMPLES = r"""
- name: Start the host's part
  heaptrial.fleet.trial:
    name: five-way
    plan: /var/lib/heaptrial-fleet/five-way.plan.toml

- name: Put everything back
  heaptrial.fleet.trial:
    name: five-way
    state: reverted
"""

RETURN = r"""
stage:
  description: Where the trial stood before, such as C(running); C(none) where the host had none of this name.
  returned: always
  type: str
outcome:
  description: What the program printed.
  returned: where something was done, or would be in check mode
  type: dict
"""

import re

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.heaptrial.fleet.plugins.module_utils import heaptrial


def standing(module, name):
    """What this host reports of the trial, or None."""
    # 1: something about a trial is wrong.
    status = heaptrial.run(module, ["trial", "status"], also=(1,))[1]
    for trial in status["damaged"]:
        if trial["name"] == name:
            module.fail_json(msg="trial %s: %s" % (name, trial["why"]))
    return next((trial for trial in status["trials"] if trial["name"] == name), None)


def plan_id(module):
    """The id of the drawn plan that was given."""
    try:
        with open(module.params["plan"]) as plan:
            found = re.search(r'^id = "([0-9a-f]+)"$', plan.read(), re.MULTILINE)
    except (IOError, OSError) as error:
        module.fail_json(msg="cannot read the plan: %s" % error)
    if not found:
        module.fail_json(msg="%s is no drawn plan: it has no id" % module.params["plan"])
    return found.group(1)


def what_is_missing(module, name, trial):
    """The command that brings the trial to the state, if one is needed."""
    wanted = module.params["state"]
    found = trial["stage"] if trial else "none"
    if wanted == "started":
        if found in ("stopped", "reverted"):
            module.fail_json(msg="trial %s has ended on this host (%s); a trial is started once" % (name, found))
        if found == "reverting":
            module.fail_json(msg="trial %s is being reverted on this host; state=reverted goes on with that" % name)
        if trial and module.params["plan"] and plan_id(module) != trial["id"]:
            module.fail_json(
                msg="trial %s was begun on this host by another drawing of its plan (%s); end or revert it first" % (name, trial["id"])
            )
        if found == "running":
            return None
        if found in ("planned", "starting"):
            return ["trial", "resume", name]
        if not module.params["plan"]:
            module.fail_json(msg="state=started needs the plan")
        return ["trial", "start", module.params["plan"], "--yes"] + heaptrial.sources(module)
    is_there = found == "none" or found == "reverted" or (wanted == "stopped" and found == "stopped")
    # The database could not be written when it ended.
    if is_there and not (trial and trial.get("goes_on_in_database")):
        return None
    if wanted == "stopped":
        return ["trial", "stop", name, "--yes"]
    without = [word for service in module.params["without"] for word in ("--without", service)]
    return ["trial", "stop", name, "--revert", "--yes"] + without


def main():
    options = {
        "name": {"type": "str", "required": True},
        "plan": {"type": "path"},
        "state": {"type": "str", "choices": ["started", "stopped", "reverted"], "default": "started"},
        "without": {"type": "list", "elements": "str", "default": []},
    }
    options.update(heaptrial.PROGRAM)
    options.update(heaptrial.SOURCES)
    module = AnsibleModule(options, supports_check_mode=True)
    name = module.params["name"]
    trial = standing(module, name)
    found = trial["stage"] if trial else "none"
    words = what_is_missing(module, name, trial)
    if words is None:
        module.exit_json(changed=False, stage=found)
    result = {"changed": True, "stage": found}
    is_start = words[1] == "start"
    if module._diff and is_start:
        _code, text, _error = module.run_command([module.params["program"]] + words + ["--dry-run"])
        result["diff"] = {"prepared": text}
    if module.check_mode:
        if words[1] != "resume":
            result["outcome"] = heaptrial.run(module, words + ["--dry-run"])[1]
        module.exit_json(**result)
    result["outcome"] = heaptrial.run(module, words)[1]
    module.exit_json(**result)


if __name__ == "__main__":
    main()
