//! Handing the blocks of a run to Slurm.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use heaptrial_lab::{Interrupt, LabPlan, Progress, RunOutcome, Workload};
use heaptrial_model::{HumanDuration, TrialPlan};

use super::Slurm;
use super::kept::{KeptRun, RunFolder, SCHEMA_VERSION, at};
use super::task::{BLOCK_COMMAND, exit};
use super::watch::Watch;
use crate::commands::lab::OWN_PROGRAM;
use crate::commands::lab::shell::quoted;
use crate::exit::Failure;

/// What the dynamic loader and `sbatch` read otherwise in a path.
const UNUSABLE: [char; 7] = [' ', ':', ';', '%', '\t', '\n', '\\'];

impl Slurm {
    /// Carries out a run: writes down all that its tasks need, submits, watches.
    pub(super) fn run(
        &self,
        lab: &LabPlan,
        plan: &TrialPlan,
        workload: &dyn Workload,
        interrupt: &Interrupt,
        progress: &mut dyn Progress,
    ) -> Result<RunOutcome, Failure> {
        let folder = RunFolder(lab.folder.clone());
        let run = self.keep(lab, plan, workload, &folder)?;
        Watch::begin(&self.cluster, folder, run)?.finish(interrupt, progress)
    }

    /// Goes on with a run of which the folder holds these very arms, builds and seed.
    pub(super) fn take_up(
        &self,
        lab: &LabPlan,
        plan: &TrialPlan,
        interrupt: &Interrupt,
        progress: &mut dyn Progress,
    ) -> Result<Option<(RunOutcome, f64)>, Failure> {
        let folder = RunFolder(lab.folder.clone());
        // One that was not written down as a whole was never submitted.
        let Some(run) = folder.read_run().ok().filter(|run| is_of(run, lab, plan)) else { return Ok(None) };
        Watch::begin(&self.cluster, folder, run)?.take_up(interrupt, progress)
    }

    fn keep(
        &self,
        lab: &LabPlan,
        plan: &TrialPlan,
        workload: &dyn Workload,
        folder: &RunFolder,
    ) -> Result<KeptRun, Failure> {
        let shown = folder.0.display();
        if folder.0.to_string_lossy().contains(UNUSABLE) {
            return Err(Failure::refused(format!(
                "{shown}: libraries are preloaded from the run's folder, whose path can have no blanks, colons, semicolons, \
                 backslashes and percent signs; name another with --out"
            )));
        }
        folder.create()?;
        let token = token();
        let program = program_in(&self.home)?;
        let copied = lab.arms.iter().map(|arm| {
            let copied = arm.obtained.copied_below(&folder.allocators());
            copied.map_err(|error| {
                Failure::failed(format!(
                    "the allocator of arm `{}` cannot be copied to {shown}: {error}",
                    arm.arm.name
                ))
            })
        });
        let run = KeptRun {
            schema_version: SCHEMA_VERSION,
            token: token.clone(),
            name: lab.name.clone(),
            command: lab.command.clone(),
            directory: std::env::current_dir().map_err(Failure::failed)?,
            arms: plan.arms.clone(),
            duration: plan.duration.or(lab.duration.map(HumanDuration)),
            metric: lab.metric,
            builds: copied.collect::<Result<_, _>>()?,
            repeats: lab.repeats,
            seed: lab.seed,
            blocks: lab.schedule(workload).blocks(),
            database: std::path::absolute(&lab.database).map_err(Failure::failed)?,
            options: self.options.clone(),
        };
        folder.write_run(&run)?;
        let token_file = folder.token(&token);
        fs::write(&token_file, &token).map_err(|error| at(&token_file, error))?;
        let script = folder.script();
        fs::write(&script, script_of(folder, &token, &program)).map_err(|error| at(&script, error))?;
        Ok(run)
    }
}

/// Whether a run that was written down is this one.
fn is_of(run: &KeptRun, lab: &LabPlan, plan: &TrialPlan) -> bool {
    let kept = run.builds.iter().map(|build| &build.sha256);
    run.seed == lab.seed
        && run.arms == plan.arms
        && run.repeats == lab.repeats
        && kept.eq(lab.arms.iter().map(|arm| &arm.obtained.sha256))
}

/// This very program at a place that nodes see.
fn program_in(home: &Path) -> Result<std::path::PathBuf, Failure> {
    let program = home.join("slurm").join("heaptrial");
    if program.is_file() {
        return Ok(program);
    }
    let beside = program.with_extension("new");
    let copied = fs::create_dir_all(home.join("slurm"))
        .and_then(|()| fs::copy(OWN_PROGRAM, &beside))
        .and_then(|_| fs::set_permissions(&beside, fs::Permissions::from_mode(0o755)))
        .and_then(|()| fs::rename(&beside, &program));
    copied.map_err(|error| at(&program, error))?;
    Ok(program)
}

/// Names a run among all others.
fn token() -> String {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    format!("{:016x}", hasher.finish())
}

/// What runs on a node. Whether it has the folder is told by an exit code: nothing else of what it says would be seen then.
fn script_of(folder: &RunFolder, token: &str, program: &Path) -> String {
    let word = |path: &Path| quoted(path.as_os_str());
    format!(
        "#!/bin/sh\n\
         # A block of a lab run of Heaptrial, as a task of an array of Slurm.\n\
         [ -e {token_file} ] || exit {not_shared}\n\
         log={logs}/$(printf %04d $((SLURM_ARRAY_TASK_ID + 1))).log\n\
         true 2>/dev/null >>\"$log\" || exit {cannot_write}\n\
         exec {program} {BLOCK_COMMAND} {folder} \"$SLURM_ARRAY_TASK_ID\" >>\"$log\" 2>&1\n",
        token_file = word(&folder.token(token)),
        not_shared = exit::NOT_SHARED,
        cannot_write = exit::CANNOT_WRITE,
        logs = word(&folder.logs()),
        program = word(program),
        folder = word(&folder.0),
    )
}
