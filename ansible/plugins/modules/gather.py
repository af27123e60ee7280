#!/usr/bin/python
"""Hosts' parts of a trial, taken into one database."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: gather
short_description: Take what hosts wrote into one database
version_added: "0.1.0"
description:
  - Runs C(heaptrial import heaptrial) on the machine that has the database; delegate it there. What is there already
    stays as it is, so that repeating it changes nothing.
options:
  files:
    description: What C(heaptrial export --format heaptrial) wrote on the hosts.
    type: list
    elements: path
    required: true
  database:
    description: The database; it is made where it is missing.
    type: path
    required: true
extends_documentation_fragment:
  - heaptrial.fleet.program
attributes:
  check_mode:
    description: Nothing is taken in, and what would be new is not known.
    support: none
  diff_mode:
    description: There is nothing to show.
    support: none
author:
  - The Heaptrial authors (@heaptrial)
"""

EXAMPLES = r"""
- name: Take in what the hosts wrote
  heaptrial.fleet.gather:
    files: [/srv/five-way/web1.db, /srv/five-way/web2.db]
    database: /srv/five-way/heaptrial.db
  delegate_to: localhost
"""

RETURN = r"""
parts:
  description: What is new of each file, and the tick after which the next one is wanted (C(since)).
  returned: success
  type: list
  elements: dict
missing_hosts:
  description: Hosts of the plan of which nothing is there yet.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.heaptrial.fleet.plugins.module_utils import heaptrial


def main():
    options = {
        "files": {"type": "list", "elements": "path", "required": True},
        "database": {"type": "path", "required": True},
    }
    options.update(heaptrial.PROGRAM)
    module = AnsibleModule(options, supports_check_mode=False)
    words = ["--db", module.params["database"], "import", "heaptrial"] + module.params["files"]
    told = heaptrial.run(module, words)[1]
    changed = any(part["changed"] for part in told["parts"])
    module.exit_json(changed=changed, parts=told["parts"], missing_hosts=told["missing_hosts"])


if __name__ == "__main__":
    main()
