//! Blocks of lab runs as tasks of a real Slurm: a controller and three nodes, each a host of its own, one of which dies.

use crate::support;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use heaptrial_store::Store;
use heaptrial_testbed::{Options, SlurmCluster, drawn};
use serde_json::Value;
use support::{bed, json, stderr, stdout, wait_for};

const PATIENCE: Duration = Duration::from_secs(120);
/// Holds 20 MB in pieces, and stays.
const HOLDER: &str =
    "import time\nheld = [bytes(4000) for _ in range(5000)]\nprint('held', flush=True)\ntime.sleep(600)\n";
const PROGRAM: &str = "-- python3 /shared/holder.py";
const ASKED: &str = "--slurm mem=300M --slurm cpus-per-task=1 --slurm time=5";

struct Bed {
    cluster: SlurmCluster,
    folder: tempfile::TempDir,
}

impl Bed {
    fn command(&self, arguments: &str) -> Command {
        let mut command = self.cluster.command("/shared", "/ht/heaptrial");
        command.args(arguments.split_whitespace());
        command
    }

    fn lab(&self, options: &str) -> Command {
        self.command(&format!("lab run -a glibc -a jemalloc --source host --seed 7 {options} {PROGRAM}"))
    }

    fn start(&self, options: &str) -> Child {
        self.lab(options).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn value(&self, path: &str) -> Option<Value> {
        serde_json::from_slice(&std::fs::read(self.path(path)).ok()?).ok()
    }

    /// Reports of a run's blocks that have results.
    fn blocks(&self, run: &str) -> Vec<Value> {
        (1..=20).filter_map(|number| self.value(&format!("{run}/blocks/{number}/block.json"))).collect()
    }

    /// Tasks of the queue that wait or run, once there are any.
    fn tasks(&self) -> Vec<String> {
        wait_for("a task", PATIENCE, || Some(self.under_way()).filter(|tasks| !tasks.is_empty()))
    }

    /// Sends a signal to the process that submitted a run.
    fn signal(&self, signal: &str, run: &str) {
        self.cluster.controller.ok(&[
            "pkill",
            signal,
            "-f",
            &format!("^/ht/heaptrial lab run.*--out /shared/{run} "),
        ]);
    }

    fn under_way(&self) -> Vec<String> {
        let tasks = self.cluster.queue().into_iter();
        tasks.filter(|task| task.contains("RUNNING") || task.contains("PENDING")).collect()
    }
}

#[track_caller]
fn ended(child: Child, code: i32) -> Output {
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{}\n{}", stdout(&output), stderr(&output));
    output
}

#[track_caller]
fn told(output: &Output, words: &[&str]) {
    let said = stderr(output);
    words.iter().for_each(|word| assert!(said.contains(word), "`{word}` is not in\n{said}"));
}

/// Services of a run's database in the order of starting: name, block, arm.
fn services(database: &Path) -> Vec<(String, u32, String)> {
    let store = Store::open(database).unwrap();
    let trial = store.trials().unwrap().remove(0).id;
    let arms: BTreeMap<i64, String> =
        store.arms(trial).unwrap().into_iter().map(|record| (record.id, record.arm.name)).collect();
    let services = store.services(trial).unwrap().into_iter().enumerate().map(|(place, service)| {
        assert_eq!(service.position as usize, place);
        (service.name, service.block, arms[&service.arm_id].clone())
    });
    services.collect()
}

#[test]
fn without_slurm_nothing_is_begun() {
    let folder = tempfile::tempdir().unwrap();
    let run = |options: &str| {
        let arguments = format!("lab run -a glibc --on slurm {options} --out run -- true");
        support::heaptrial(folder.path())
            .env("PATH", folder.path())
            .args(arguments.split_whitespace())
            .output()
            .unwrap()
    };
    std::os::unix::fs::symlink("/bin/true", folder.path().join("true")).unwrap();
    let output = run("");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    told(&output, &["`sbatch` is not in PATH", "login node"]);
    let output = run("--userland trixie");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    told(&output, &["--userland", "nodes of a cluster do not see"]);
    let output = run("--slurm array=1-3");
    told(&output, &["array is decided by the run"]);
    assert!(!folder.path().join("run").exists());
}

/// Stands for Slurm: a task runs on this host at once, but the task of block 2 of a search fails the first time.
const SBATCH: &str = r#"#!/bin/sh
for script; do case $script in --array=*) task=${script#--array=};; esac; done
case $script in
*/blocks/0002/*)
    if [ ! -e failed-once ]; then
        touch failed-once
        echo 'on n2: its disk is gone' >"${script%/*}/failed/$task"
        echo 7
        exit
    fi ;;
esac
for one in $(echo "$task" | tr , ' '); do
    SLURM_ARRAY_TASK_ID=$one SLURMD_NODENAME=n1 sh "$script" >/dev/null 2>&1 &
done
echo 7
"#;

/// A folder in which `lab tune` finds the stand-in for Slurm.
struct StandIn(tempfile::TempDir);

impl StandIn {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        std::fs::write(folder.path().join("holder.py"), HOLDER).unwrap();
        for (name, text) in [("sbatch", SBATCH), ("squeue", "#!/bin/sh\n"), ("scancel", "#!/bin/sh\n")] {
            let path = folder.path().join("bin").join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self(folder)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn heaptrial(&self) -> Command {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let mut command = support::heaptrial(self.0.path());
        command.env("PATH", path).env("XDG_CACHE_HOME", self.path("cache"));
        command
    }

    fn tune(&self, options: &str) -> Command {
        let mut command = self.heaptrial();
        command.args("lab tune --json".split(' ')).args(options.split_whitespace());
        command
    }
}

const TUNED: &str = "--out found --over glibc --setting arena_max=1,2 --candidates 2 --blocks 2 --verify 2 --winners 1 \
     run --on slurm --ready log:^held --duration 1s --warm-up 0s --tick 100ms --seed 7 -- /usr/bin/python3 holder.py";

/// Blocks of a search's report by their numbers.
fn numbers(report: &Value) -> Vec<u64> {
    report["blocks"].as_array().unwrap().iter().map(|block| block["number"].as_u64().unwrap()).collect()
}

#[test]
fn a_search_whose_task_failed_goes_on_by_its_own_command() {
    let Some(()) = drawn(0, 6) else { return };
    let slurm = StandIn::new();
    let output = slurm.tune(TUNED).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    told(&output, &["block-2 of control, glibc", "on n2: its disk is gone", "lab tune --continue "]);
    let so_far = json(&output);
    assert!(so_far["stopped"].as_str().unwrap().contains("its disk is gone"), "{so_far:#}");
    assert_eq!(numbers(&so_far), [1], "{}", stderr(&output));
    let first = std::fs::read(slurm.path("found/blocks/0001/heaptrial.db")).unwrap();

    let output = slurm.tune("--continue found").output().unwrap();
    assert!([Some(0), Some(4)].contains(&output.status.code()), "{}", stderr(&output));
    let whole = json(&output);
    // The block that failed is measured in another folder.
    assert_eq!(numbers(&whole)[..2], [1, 3], "{whole:#}");
    assert_eq!(whole["blocks"][0], so_far["blocks"][0]);
    assert_eq!(std::fs::read(slurm.path("found/blocks/0001/heaptrial.db")).unwrap(), first);
}

#[test]
#[ignore = "needs root and containers"]
fn a_run_on_a_cluster_is_that_of_one_machine_and_outlives_nodes_and_submitters() {
    let Some(()) = drawn(6, 8) else { return };
    let Some(base) = SlurmCluster::base_for_test() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("holder.py"), HOLDER).unwrap();
    let options = Options::new().bind(bed::build_folder(), "/ht");
    let cluster = SlurmCluster::boot(&base, 3, folder.path(), &options).unwrap();
    let mut bed = Bed { cluster, folder };

    a_node_that_dies_costs_its_block(&mut bed);
    the_same_command_goes_on_where_its_process_died(&bed);
    ctrl_c_cancels_and_keeps_what_has_results(&bed);
    what_cannot_be_is_refused(&bed);
}

fn a_node_that_dies_costs_its_block(bed: &mut Bed) {
    let asked = "--repeat 6 --duration 3s";
    let run = bed.start(&format!("{asked} --on slurm {ASKED} --out /shared/died --json"));
    let on_n2 = wait_for("a task on n2", PATIENCE, || {
        let tasks = bed.under_way();
        tasks
            .iter()
            .find(|task| task.contains("RUNNING n2"))
            .map(|task| task.split(' ').next().unwrap().to_owned())
    });
    bed.cluster.nodes[1].power_cut().unwrap();
    wait_for("the task that is started again", PATIENCE, || {
        bed.cluster.queue().iter().any(|task| task.starts_with(&format!("{on_n2} PENDING"))).then_some(())
    });
    // Slurm leaves two minutes between.
    let now = ["scontrol", "update", &format!("JobId={on_n2}"), "StartTime=now"];
    bed.cluster.controller.ok(&now);
    let output = ended(run, 0);
    told(&output, &["6 blocks submitted"]);
    assert_eq!(bed.blocks("died").len(), 6);

    // The same seed gives the same blocks here.
    let report = json(&output);
    let plan = json(&bed.lab(&format!("{asked} --dry-run --json")).output().unwrap());
    let planned: Vec<(u32, String)> = plan["rounds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|round| {
            (round["repeat"].as_u64().unwrap() as u32 - 1, round["arms"][0].as_str().unwrap().to_owned())
        })
        .collect();
    let database = bed.path("died/heaptrial.db");
    let ran = services(&database);
    assert_eq!(ran.iter().map(|(_, block, arm)| (*block, arm.clone())).collect::<Vec<_>>(), planned);
    let here = bed.lab("--repeat 1 --duration 1s --tick 200ms --out /shared/here --json").output().unwrap();
    assert!(here.status.success(), "{}", stderr(&here));
    assert_eq!(services(&bed.path("here/heaptrial.db")), ran[..2]);
    let sha256 = |report: &Value| {
        let arms = report["arms"].as_array().unwrap().iter();
        arms.map(|arm| arm["identity"]["sha256"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(sha256(&report), sha256(&json(&here)));
    // And the report has where they ran.
    let hosts: Vec<&str> =
        report["hosts"].as_array().unwrap().iter().map(|host| host["name"].as_str().unwrap()).collect();
    assert!(hosts.len() >= 2 && hosts.iter().all(|host| ["n1", "n2", "n3"].contains(host)), "{hosts:?}");
    assert_eq!(report["outcome"], "completed");
    assert_eq!(std::fs::read_dir(bed.path("died/logs")).unwrap().count(), 24);
}

fn the_same_command_goes_on_where_its_process_died(bed: &Bed) {
    // Two arms have one library.
    let command = format!(
        "-a jemalloc?narenas=1 --repeat 3 --duration 1s --tick 200ms --on slurm {ASKED} --out /shared/left --json"
    );
    let run = bed.start(&command);
    let first = bed.tasks();
    bed.signal("-KILL", "left");
    run.wait_with_output().unwrap();
    let output = bed.lab(&command).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(json(&output)["services"].as_array().unwrap().len(), 9);
    assert!(!stderr(&output).contains("submitted"), "tasks were under way ({first:?}): {}", stderr(&output));
    // All of it has results, whatever is asked of the cluster.
    let again = command.replace("mem=300M", "mem=400M");
    let output = bed.lab(&again).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(json(&output)["services"].as_array().unwrap().len(), 9);
    // Another run does not go on in its folder.
    let output = bed.lab(&command.replace("--repeat 3", "--repeat 4")).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
}

fn ctrl_c_cancels_and_keeps_what_has_results(bed: &Bed) {
    let run = bed.start(&format!("--repeat 8 --duration 2s --on slurm {ASKED} --out /shared/cut --json"));
    wait_for("a block", PATIENCE, || (!bed.blocks("cut").is_empty()).then_some(()));
    bed.signal("-INT", "cut");
    let output = ended(run, 1);
    told(&output, &["the run was interrupted"]);
    wait_for("an empty queue", PATIENCE, || bed.under_way().is_empty().then_some(()));
    let report = json(&output);
    let services = report["services"].as_array().unwrap().len();
    assert_eq!(report["outcome"], "interrupted");
    assert!((2..16).contains(&services) && services % 2 == 0, "{services}");
    assert_eq!(services, 2 * bed.blocks("cut").len());
}

fn what_cannot_be_is_refused(bed: &Bed) {
    let output = bed.lab("--on slurm --slurm partition=nope --out /shared/nope").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    told(&output, &["invalid partition specified: nope", "`sinfo` lists partitions"]);
    // Every host has a home of its own.
    let output = bed.lab("--on slurm --repeat 2 --out /home/ana/run").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    told(&output, &["no results of 2 of 2 blocks", "does not share /home/ana/run"]);
}
