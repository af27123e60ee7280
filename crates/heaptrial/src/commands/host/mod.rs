//! What commands on the services of this host have in common: select services, obtain their allocators, check whether they
//! may be changed, change them, and show where that stands.

pub mod admit;
pub mod carry_out;
pub mod events;
pub mod findings;
pub mod obtain;
pub mod record;
pub mod select;
pub mod standing;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use heaptrial_change::{Lock, Prepared, read_prepared};
use heaptrial_fleet::rollout::is_rollout;
use heaptrial_host::systemd::Systemd;
use heaptrial_host::trusted::path_is_trustworthy;
use heaptrial_host::{HostRoot, Paths, host_name};
use heaptrial_model::TrialName;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::run_folder::DATABASE;

/// This host, or with `--user` what a user has on it: where its files and its database are.
pub struct Host<'g> {
    pub global: &'g GlobalOptions,
    pub paths: Paths,
    pub database: PathBuf,
}

impl<'g> Host<'g> {
    /// To be shown to whoever may read what is on it.
    pub fn readable(global: &'g GlobalOptions) -> Result<Self, Failure> {
        let host = Self::of(global)?;
        host.require_readable()?;
        Ok(host)
    }

    pub fn of(global: &'g GlobalOptions) -> Result<Self, Failure> {
        let paths = global.paths()?;
        let database = global.db.clone().unwrap_or_else(|| paths.state.join(DATABASE));
        Ok(Self { global, paths, database })
    }

    pub fn systemd(&self) -> Result<Systemd, Failure> {
        self.global.systemd()
    }

    pub fn name(&self) -> Result<String, Failure> {
        Ok(host_name(&HostRoot::default())?)
    }

    /// What was frozen of a trial when it began.
    pub fn trial(&self, name: &str) -> Result<Prepared, Failure> {
        let prepared = read_prepared(&self.paths, name)?;
        if is_rollout(&prepared) {
            let text = format!("`{name}` is a rollout and no trial; see `heaptrial rollout`");
            return Err(Failure::refused(text));
        }
        Ok(prepared)
    }

    /// Refuses whoever is not root, or with `--user` the user whose services they are, and folders of ours that others can
    /// change: what lies there is written and run with their rights.
    pub fn require_owner(&self, doing: &str) -> Result<(), Failure> {
        if self.paths.scope.owner() != rustix::process::geteuid().as_raw() {
            return Err(Failure::refused(format!(
                "`heaptrial {doing}` needs root, because it changes files of systemd and restarts services: use sudo, or --user for \
                 your own services"
            )));
        }
        self.require_trusted()
    }

    /// Refuses folders of ours that others than root, or with `--user` the user, can change.
    pub fn require_trusted(&self) -> Result<(), Failure> {
        let paths = &self.paths;
        for folder in [&paths.state, &paths.libraries, &paths.units] {
            path_is_trustworthy(&HostRoot::default(), folder, paths.scope).map_err(|why| {
                Failure::refused(format!(
                    "{} cannot be used: {why}; others must not be able to change what is written and run there (`chmod go-w`). \
                     Nothing was changed",
                    folder.display()
                ))
            })?;
        }
        Ok(())
    }

    /// Refuses to show what is on this host to a user who may not read it.
    pub fn require_readable(&self) -> Result<(), Failure> {
        let paths =
            [self.paths.state.clone(), self.paths.trials(), self.paths.watches(), self.database.clone()];
        for path in paths {
            match std::fs::File::open(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                    return Err(Failure::refused(format!(
                        "cannot read {}: {error}; only root can read what is on this host: use sudo",
                        path.display()
                    )));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether some process is changing services for this trial or rollout. One that does not say whose it is may be.
    pub fn is_at_work(&self, name: &str) -> bool {
        let state: &Path = &self.paths.state;
        Lock::is_held(state) && Lock::holder(state).is_none_or(|holder| holder.name == name)
    }
}

/// One trial, rollout or watch.
#[derive(Debug, Args)]
pub struct NameOptions {
    /// Its name, as `status` lists it
    #[arg(value_name = "NAME")]
    pub name: TrialName,
}

/// One trial, rollout or watch, or all of them.
#[derive(Debug, Args)]
pub struct StatusOptions {
    /// Its name; without it all of this host in a line each
    #[arg(value_name = "NAME")]
    pub name: Option<TrialName>,
}

#[derive(Debug, Args)]
pub struct Consent {
    /// Go on without asking, as a script must
    #[arg(long)]
    yes: bool,
    /// Show what would be changed, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

impl Consent {
    /// Asks whether to go on, unless that was answered by `--yes`. Without a terminal nobody can be asked.
    pub fn ask(&self, question: &str) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
            return Err(Failure::refused(format!(
                "{question} Nothing was changed: add --yes to go on, or --dry-run to see more"
            )));
        }
        eprint!("{question} [y/N] ");
        let _ = std::io::stderr().flush();
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).map_err(Failure::failed)?;
        match answer.trim() {
            "y" | "Y" | "yes" => Ok(()),
            _ => Err(Failure::refused("nothing was changed")),
        }
    }
}

/// Set by the first Ctrl-C; services that are being restarted are still brought to a known state. A second one ends
/// the program at once, which the recovery timer puts right.
pub fn interrupt() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    set_by(&[SIGINT, SIGTERM, SIGHUP], &flag)?;
    Ok(flag)
}

/// Has the first of these signals set a flag, and a second one end the program at once.
pub fn set_by(signals: &[i32], flag: &Arc<AtomicBool>) -> Result<(), Failure> {
    for signal in signals {
        signal_hook::flag::register_conditional_shutdown(*signal, 130, flag.clone())
            .map_err(Failure::failed)?;
        signal_hook::flag::register(*signal, flag.clone()).map_err(Failure::failed)?;
    }
    Ok(())
}

/// Why nothing further is restarted, once a signal came.
pub fn interrupted(flag: &AtomicBool) -> Option<String> {
    flag.load(Ordering::Relaxed).then(|| "interrupted".to_owned())
}
