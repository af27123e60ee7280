"""Records a table of real lab runs: every candidate of a small space of the C library's settings under a program that
fragments memory, some times each. Makes table.json beside this file anew:

    python3 crates/search/tests/recorded/record.py target/release/heaptrial

Takes about seven minutes of a machine on which nothing else runs."""

import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = HERE.parents[3] / "crates/heaptrial/tests/programs/churn.py"
REPEATS = 3
SPACE = [
    "--over", "glibc",
    "--setting", "arena_max=1",
    "--setting", "mmap_threshold=262144,4194304",
    "--setting", "trim_threshold=4096,262144,16777216",
    "--setting", "top_pad=0,1048576",
]
LOAD = ["--ready", "log:^held", "--duration", "1s", "--tick", "100ms", "--seed", "1"]


def main():
    heaptrial = sys.argv[1]
    program = ["--", "/usr/bin/python3", str(PROGRAM)]
    asked = [heaptrial, "--json", "lab", "tune", *SPACE, "run", "--dry-run", *LOAD, *program]
    space = json.loads(subprocess.run(asked, check=True, stdout=subprocess.PIPE).stdout)["space"]
    [base] = space["bases"]
    choices = [range(len(setting["levels"])) for setting in base["settings"]]
    specs = {}
    for levels in itertools.product(*choices):
        values = [
            f"{setting['name']}={setting['levels'][level]['value']}"
            for setting, level in zip(base["settings"], levels)
            if setting["levels"][level]["value"] is not None
        ]
        specs["?".join(filter(None, [base["name"], "&".join(values)]))] = list(levels)
    arms = [word for spec in specs for word in ("-a", spec)]
    with tempfile.TemporaryDirectory() as folder:
        run = [heaptrial, "--out", folder, "lab", "run", *arms, "--repeat", str(REPEATS), *LOAD, *program]
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
        report = json.loads((pathlib.Path(folder) / "report.json").read_text())
    runs = {spec: [None] * REPEATS for spec in specs}
    for service in report["services"]:
        assert service["counts"], service
        runs[service["arm"]][service["block"]] = round(service["level_bytes"])
    host = report["host"]
    table = {
        "recorded": report["started_at"][:10],
        "by": "crates/search/tests/recorded/record.py",
        "host": {key: host[key] for key in ("os", "kernel", "cpus") if key in host},
        "space": space,
        "control": base["name"],
        "runs": [{"spec": spec, "levels": specs[spec], "bytes": runs[spec]} for spec in specs],
    }
    (HERE / "table.json").write_text(json.dumps(table, indent=1) + "\n")


main()
