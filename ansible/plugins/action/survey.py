"""A survey of a host: its description is brought, and what the host reports is kept here, in one round trip."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import json
import os
import time

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.heaptrial.fleet.plugins.module_utils.clock import why_not


class ActionModule(ActionBase):
    """Both sides of a survey."""

    def run(self, tmp=None, task_vars=None):
        result = super(ActionModule, self).run(tmp, task_vars)
        _spec, options = self.validate_argument_spec(
            {
                "description": {"type": "path", "required": True},
                "folder": {"type": "path"},
                "clock_seconds": {"type": "float", "default": 30},
                "program": {"type": "path", "default": "heaptrial"},
                "offline": {"type": "bool", "default": False},
                "mirror": {"type": "str"},
            }
        )
        try:
            with open(options["description"]) as file:
                text = file.read()
        except (IOError, OSError) as error:
            raise AnsibleActionFail("cannot read the description: %s" % error)
        words = dict((word, options[word]) for word in ("program", "offline", "mirror") if options[word] is not None)
        words["description"] = text
        asked = time.time()
        told = self._execute_module(module_name="heaptrial.fleet.survey", module_args=words, task_vars=task_vars)
        answered = time.time()
        result.update(told)
        if result.get("failed") or "survey" not in result:
            return result
        why = why_not(result["clock"], asked, answered, options["clock_seconds"])
        if why:
            return dict(result, failed=True, msg=why)
        if options["folder"] and not self._task.check_mode:
            result["changed"] = keep(options["folder"], task_vars["inventory_hostname"], result["survey"])
        return result


def keep(folder, host, survey):
    """Writes it whole or not at all; gives whether it is another one than before."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, host + ".json")
    text = json.dumps(survey, indent=4, sort_keys=True) + "\n"
    try:
        with open(path) as file:
            if file.read() == text:
                return False
    except (IOError, OSError):
        pass
    with os.fdopen(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    os.rename(path + ".new", path)
    return True
