"""A host's clock against this machine's, in one round trip: however many hosts there are, each is held to its own."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

import time

from ansible.plugins.action import ActionBase
from ansible_collections.heaptrial.fleet.plugins.module_utils.clock import why_not


class ActionModule(ActionBase):
    """Asks for the time."""

    def run(self, tmp=None, task_vars=None):
        result = super(ActionModule, self).run(tmp, task_vars)
        _spec, options = self.validate_argument_spec({"seconds": {"type": "float", "default": 30}})
        asked = time.time()
        told = self._low_level_execute_command("date +%s")
        answered = time.time()
        try:
            why = why_not(int(told["stdout"]), asked, answered, options["seconds"])
        except ValueError:
            why = "its date printed no time: %s" % (told["stdout"] + told["stderr"]).strip()
        return dict(result, changed=False, **({"failed": True, "msg": why} if why else {}))
