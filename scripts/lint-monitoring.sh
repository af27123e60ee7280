#!/usr/bin/env bash
# Checks what monitoring/ brings: rules with their tests, configuration, dashboard, and that all of it and its page in docs/
# speak of the metrics that there are. Needs promtool (Debian: prometheus) and python3.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in promtool python3; do
	command -v "$program" > /dev/null || { echo "$program is missing (apt-get install prometheus python3)" >&2; exit 1; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

promtool check rules --lint=all --lint-fatal monitoring/heaptrial.rules.yml
# A file of targets that is not there is only warned of.
promtool check config --lint=all --lint-fatal monitoring/prometheus.yml 2>&1 | tee "$folder/config"
! grep -q WARNING "$folder/config" || exit 1
promtool test rules monitoring/heaptrial.rules.test.yml

# Metrics are read from where they are exposed. Writes the dashboard's expressions as rules for promtool.
python3 - "$folder/dashboard.rules.yml" << 'END_OF_PYTHON'
import json
import re
import sys
from itertools import combinations
from pathlib import Path

RULES = Path("monitoring/heaptrial.rules.yml").read_text()
TESTS = Path("monitoring/heaptrial.rules.test.yml").read_text()
PAGE = Path("docs/agent.md").read_text()
DASHBOARD = json.loads(Path("monitoring/grafana-dashboard.json").read_text())

COLUMNS = 24
OF_PROMETHEUS = {"up"}
OF_GRAFANA = {"__rate_interval": "5m", "__interval": "1m", "__range": "1h"}
LABELS = {"job", "instance", "trial", "arm", "service", "watch", "kind", "severity", "key"}
WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan", "start", "end"}

faults = []


def named(source, of):
    """Names with their helps in a list of metrics, behind a prefix."""
    return {f"heaptrial_{of}_{name}" for name in re.findall(r'\(\s*"([a-z_]+)",\s*"[A-Z0-9]', source)}


def of_agent():
    services, own = Path("crates/agent/src/metrics/text.rs").read_text().split("impl Agent", 1)
    return named(services, "service") | named(own, "agent")


def of_watch():
    source = next(Path("crates/fleet/src/watch").glob("*/metrics.rs")).read_text()
    names = set(re.findall(r'describe\(&mut text, "(heaptrial_watch_\w+)"', source))
    return names | named(source, "watch")


def metrics_of(expression):
    """The names in an expression that are no functions, labels, words or values."""
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)
    for label in re.findall(r"[{,]\s*(\w+)\s*(?:=~|!~|!=|=)", text):
        if label not in LABELS:
            faults.append(f"no metric has a label `{label}`: {expression}")
    text = re.sub(r"\{[^}]*\}|\[[^]]*\]", " ", text)
    for labels in re.findall(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)", text):
        for label in filter(None, map(str.strip, labels.split(","))):
            if label not in LABELS:
                faults.append(f"no metric has a label `{label}`: {expression}")
    text = re.sub(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", text)
    text = re.sub(r"\boffset\s+\w+", " ", text)
    names = re.findall(r"(?<![\w:.])([a-zA-Z_:][\w:]*)\b(?!\s*\()", text)
    return {name for name in names if name.lower() not in WORDS}


agent, watch = of_agent(), of_watch()
for where, names in (("the agent", agent), ("a watch", watch)):
    if not names:
        faults.append(f"no metrics of {where} were found in its source")
exposed = agent | watch
recorded = re.findall(r"^\s+- record: (\S+)$", RULES, re.MULTILINE)
alerts = re.findall(r"^\s+- alert: (\S+)$", RULES, re.MULTILINE)
if not recorded or not alerts:
    faults.append("no rules were found in monitoring/heaptrial.rules.yml")
known = exposed | set(recorded) | OF_PROMETHEUS

# Rules.
for name in re.findall(r"(?<![\w:-])(?:\w+:)?heaptrial_\w+(?::\w+)?", RULES + TESTS):
    if name not in known:
        faults.append(f"rules or their tests name `{name}`, which nothing exposes or records")
for name in recorded:
    if not re.search(rf"^\s+- expr: .*(?<![\w:]){name}\b", TESTS, re.MULTILINE):
        faults.append(f"no test looks at `{name}`")
for name in alerts:
    cases = re.findall(rf"- alertname: {name}\n\s+eval_time: \S+\n\s+exp_alerts:(.*)\n", TESTS)
    if not any(case.strip() == "[]" for case in cases) or all(case.strip() == "[]" for case in cases):
        faults.append(f"`{name}` needs a test where it fires and one where it does not")

# The page.
for name in [*sorted(exposed), *alerts]:
    if f"`{name}`" not in PAGE:
        faults.append(f"docs/agent.md does not name `{name}`")
for name in re.findall(r"`((?:\w+:)?heaptrial_\w+(?::\w+)?|Heaptrial[A-Z]\w+)`", PAGE):
    if name not in known | set(alerts):
        faults.append(f"docs/agent.md names `{name}`, which does not exist")

# The dashboard.
panels = [inner for panel in DASHBOARD["panels"] for inner in (panel, *panel.get("panels", []))]
ids = [panel["id"] for panel in panels]
for panel_id in sorted({panel_id for panel_id in ids if ids.count(panel_id) > 1}):
    faults.append(f"the id {panel_id} has several panels")


def area(panel):
    grid = panel["gridPos"]
    return grid["x"], grid["y"], grid["x"] + grid["w"], grid["y"] + grid["h"]


for panel in panels:
    left, top, right, bottom = area(panel)
    if left < 0 or top < 0 or right > COLUMNS or left >= right or top >= bottom:
        faults.append(f"panel {panel['id']} is not on the grid")
for one, other in combinations(panels, 2):
    (left, top, right, bottom), (left2, top2, right2, bottom2) = area(one), area(other)
    if left < right2 and left2 < right and top < bottom2 and top2 < bottom:
        faults.append(f"panels {one['id']} and {other['id']} overlap")

variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}


def filled(text):
    def value(match):
        name = match.group(1) or match.group(2)
        if name not in variables and name not in OF_GRAFANA:
            faults.append(f"the dashboard has no variable `{name}`: {text}")
        return OF_GRAFANA.get(name, ".*")

    return re.sub(r"\$\{(\w+)\}|\$(\w+)", value, text)


expressions = []
for panel in panels:
    if panel["type"] == "row":
        continue
    title = panel["title"]
    if not panel.get("description"):
        faults.append(f"panel `{title}` has no description")
    if not panel.get("fieldConfig", {}).get("defaults", {}).get("unit"):
        faults.append(f"panel `{title}` has no unit")
    if not panel.get("targets"):
        faults.append(f"panel `{title}` shows nothing")
    for target in panel.get("targets", []):
        if target["datasource"].get("uid") != "${datasource}":
            faults.append(f"panel `{title}` has a data source of its own")
        expressions.append(filled(target["expr"]))
for variable in DASHBOARD["templating"]["list"]:
    for series in re.findall(r"label_values\((.*), \w+\)$", variable.get("definition", "")):
        expressions.append(filled(series))
for expression in expressions:
    for name in sorted(metrics_of(expression) - known):
        faults.append(f"the dashboard names `{name}`, which nothing exposes or records: {expression}")
for name in sorted(exposed - set().union(*map(metrics_of, expressions))):
    faults.append(f"no panel shows `{name}`")

rules = [{"record": f"dashboard:expression:{number}", "expr": text} for number, text in enumerate(expressions)]
# JSON is YAML.
Path(sys.argv[1]).write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
for fault in dict.fromkeys(faults):
    print(fault, file=sys.stderr)
if faults:
    sys.exit(1)
print(f"{len(exposed)} metrics, {len(recorded)} recording rules, {len(alerts)} alerts, {len(expressions)} expressions")
END_OF_PYTHON

promtool check rules "$folder/dashboard.rules.yml"
