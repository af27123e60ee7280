#!/usr/bin/python
"""A host's clock; looked at by the action plugin of the same name."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: clock
short_description: Fail where a host's clock is not that of the machine that controls it
version_added: "0.1.0"
description:
  - Asks for the host's time, and compares it with this machine's before the question and after the answer.
options:
  seconds:
    description: So far apart they may be.
    type: float
    default: 30
attributes:
  check_mode:
    description: Changes nothing.
    support: full
  diff_mode:
    description: Shows nothing.
    support: none
author:
  - The Heaptrial authors (@heaptrial)
"""

EXAMPLES = r"""
- name: Compare the clock
  heaptrial.fleet.clock:
    seconds: 5
"""

RETURN = r""" # """
