#!/usr/bin/python
"""A rollout on several hosts at once; done by the action plugin of the same name."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: rollout_together
short_description: Roll out by a verdict on all hosts of a task, and pause all where one stops
version_added: "0.1.0"
description:
  - Begins the rollout of each host as M(heaptrial.fleet.rollout) does, or goes on with it, and looks at it again and again until it is
    complete. What the hosts see is judged together on the machine that controls them, by C(heaptrial rollout judge --hosts).
  - Where one host fails, stops, is paused, put back or lost, or where all together say stop, the rollouts of all hosts of the task are
    paused before their next restart, and the task fails on each of them.
  - Ansible must work on all of these hosts at once (C(--forks)). Where the task itself is ended, each host goes on by its own gates.
options:
  name:
    description: The rollout's name.
    type: str
    required: true
  verdict:
    description: The verdict, a file on the host as C(heaptrial trial verdict) wrote it; needed to begin.
    type: path
  services:
    description: Patterns of services, such as C(tor@*); needed to begin.
    type: list
    elements: str
    default: []
  options:
    description: Further options of C(heaptrial rollout start), such as C(--soak) and C(1d).
    type: list
    elements: str
    default: []
  despite_findings:
    description: Begin it though the verdict is that the arm bloats, or has grave findings, which is refused otherwise.
    type: bool
    default: false
  resume:
    description: Go on with what a gate stopped or somebody paused.
    type: bool
    default: false
  poll:
    description: From one look at a host to the next, in seconds.
    type: int
    default: 30
  lost:
    description: A host that cannot be reached, or on which no process works on the rollout, is waited for so many seconds.
    type: int
    default: 600
  timeout:
    description: The task fails after so many seconds; the rollouts go on by themselves.
    type: int
    default: 5184000
  local_program:
    description: The program on the machine that controls the hosts.
    type: path
    default: heaptrial
extends_documentation_fragment:
  - heaptrial.fleet.program
  - heaptrial.fleet.program.sources
attributes:
  check_mode:
    description: Tells nothing; M(heaptrial.fleet.rollout) tells what would be done on each host.
    support: partial
  diff_mode:
    description: Shows nothing.
    support: none
author:
  - The Heaptrial authors (@heaptrial)
"""

EXAMPLES = r"""
- name: Roll out on all hosts, and pause all where one stops
  heaptrial.fleet.rollout_together:
    name: five-way-rollout
    verdict: /var/lib/heaptrial-fleet/five-way-mimalloc.verdict.json
    services: ["tor@*"]
"""

RETURN = r"""
standing:
  description: Where the rollout of this host stands.
  returned: where the host could be asked
  type: str
reasons:
  description: Why the rollouts of all hosts are paused.
  returned: on failure
  type: list
  elements: str
"""
