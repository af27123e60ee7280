//! What a treatment means for one service: files, and what its process must then run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use heaptrial_allocator::Expected;
use heaptrial_host::systemd::{UnitEnvironment, quoted};
use heaptrial_host::{Paths, Scope};
use heaptrial_model::{HumanDuration, Identity, Linkage, ServiceName};
use heaptrial_relay::Relay;
use serde::{Deserialize, Serialize};

use crate::error::ServiceError;
use crate::files::{FileState, digest};
use crate::ledger::some;

/// A restart timer fires up to this share of its interval later, always the same for a service, so that those of a
/// fleet do not meet after a reboot; never more than [`RESTART_DELAY_MOST`].
const RESTART_DELAY_SHARE: u32 = 20;
const RESTART_DELAY_MOST: Duration = Duration::from_secs(3600);

/// What one service is to become.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServiceTreatment {
    pub service: ServiceName,
    pub arm: String,
    /// Services of one family are never down together.
    pub family: Option<String>,
    /// Environment variables to set, `LD_PRELOAD` among them.
    pub environment: Vec<(String, String)>,
    pub unset: Vec<String>,
    pub torrc: BTreeMap<String, String>,
    pub restart_every: Option<HumanDuration>,
    /// What its process must run.
    pub expected: Expected,
    /// Where it is a Tor instance.
    pub relay: Option<Relay>,
}

/// A file as it should be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Desired {
    pub(crate) path: PathBuf,
    pub(crate) content: Content,
}

/// What should be in it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    /// A file of who runs this program with these bytes, where nothing was before.
    New(Vec<u8>),
    Link(PathBuf),
    /// The torrc that is there with these options.
    Torrc(BTreeMap<String, String>),
    /// What was there before an ended trial wrote it.
    Origin {
        state: FileState,
        bytes: Vec<u8>,
    },
}

/// A trial's name and the id of its drawing, for comments in files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark<'a> {
    pub(crate) trial: &'a str,
    pub(crate) id: &'a str,
}

impl ServiceTreatment {
    /// The files that it changes.
    pub(crate) fn files(&self, paths: &Paths, mark: Mark<'_>) -> Vec<Desired> {
        let mut files = Vec::new();
        if let Some(text) = self.drop_in(mark) {
            files.push(Desired {
                path: paths.drop_in(&self.service),
                content: Content::New(text.into_bytes()),
            });
        }
        if let (Some(relay), false) = (&self.relay, self.torrc.is_empty()) {
            files.push(Desired { path: relay.torrc.clone(), content: Content::Torrc(self.torrc.clone()) });
        }
        if let (Some(every), Some(timer)) = (self.restart_every, self.timer()) {
            let name = timer.as_str().strip_suffix(".timer").unwrap_or(timer.as_str());
            let unit = |text: String| Content::New(text.into_bytes());
            files.push(Desired {
                path: paths.unit(&format!("{name}.service")),
                content: unit(self.restart_service(paths.scope, mark)),
            });
            files.push(Desired {
                path: paths.unit(timer.as_str()),
                content: unit(self.with_header(mark, &self.restart_timer(every))),
            });
            files.push(Desired {
                path: paths.unit(&format!("timers.target.wants/{timer}")),
                content: Content::Link(PathBuf::from(format!("../{timer}"))),
            });
        }
        files
    }

    /// Unit files and the drop-in that it needs for itself.
    pub(crate) fn unit_files(&self, paths: &Paths) -> Vec<PathBuf> {
        let files = self.files(paths, Mark { trial: "", id: "" }).into_iter().map(|file| file.path);
        files.filter(|path| path.starts_with(&paths.units)).collect()
    }

    /// Every file that it changes, with what is written: of a torrc the lines that are added.
    pub fn preview(&self, paths: &Paths, trial: &str, id: &str) -> Vec<(PathBuf, String)> {
        let text = |content: &Content| match content {
            Content::New(bytes) | Content::Origin { bytes, .. } => {
                String::from_utf8_lossy(bytes).into_owned()
            }
            Content::Link(target) => format!("-> {}\n", target.display()),
            Content::Torrc(options) => {
                options.iter().map(|(name, value)| format!("{name} {value}\n")).collect()
            }
        };
        let files = self.files(paths, Mark { trial, id });
        files.into_iter().map(|file| (file.path, text(&file.content))).collect()
    }

    /// The drop-in, where the environment is changed.
    fn drop_in(&self, mark: Mark<'_>) -> Option<String> {
        if self.environment.is_empty() && self.unset.is_empty() {
            return None;
        }
        let mut body = "[Service]\n".to_owned();
        for (name, value) in &self.environment {
            body += &format!("Environment={}\n", quoted(&format!("{name}={value}")));
        }
        if !self.unset.is_empty() {
            body += &format!("UnsetEnvironment={}\n", self.unset.join(" "));
        }
        Some(self.with_header(mark, &body))
    }

    /// Whether systemd's own view of the service has the treatment.
    pub(crate) fn check_settings(
        &self,
        paths: &Paths,
        systemds: &UnitEnvironment,
    ) -> Result<(), ServiceError> {
        if self.environment.is_empty() && self.unset.is_empty() {
            return Ok(());
        }
        let drop_in = paths.drop_in(&self.service);
        if !systemds.drop_ins.contains(&drop_in) {
            return Err(ServiceError(format!("systemd did not take {} in", drop_in.display())));
        }
        let others = systemds.drop_ins.iter().filter(|path| **path != drop_in);
        let others: Vec<String> = others.map(|path| path.display().to_string()).collect();
        let by_whom = match others.is_empty() {
            true => String::new(),
            false => format!("; other drop-ins of it are {}", some(others.into_iter())),
        };
        for (variable, wanted) in &self.environment {
            let found = systemds.value(variable);
            if found != Some(wanted.as_str()) {
                let found = found.unwrap_or("not set");
                return Err(ServiceError(format!(
                    "{variable} is `{found}` for systemd and not `{wanted}`{by_whom}; see `systemctl cat {}`",
                    self.service
                )));
            }
        }
        match self.unset.iter().find(|name| !systemds.unset.contains(name)) {
            Some(kept) => Err(ServiceError(format!("{kept} is not removed from its environment{by_whom}"))),
            None => Ok(()),
        }
    }

    /// The timer that restarts the service, where there is one.
    pub fn timer(&self) -> Option<ServiceName> {
        self.restart_every?;
        self.timer_name().parse().ok()
    }

    /// The name that a timer of the service has, whether or not its arm wants one.
    pub(crate) fn timer_name(&self) -> String {
        let name = self.service.as_str();
        let stem = name.strip_suffix(".service").unwrap_or(name).replace('@', "\\x40");
        format!("heaptrial-restart-{stem}.timer")
    }

    fn restart_service(&self, scope: Scope, mark: Mark<'_>) -> String {
        let word = quoted(self.service.as_str());
        let body = format!(
            "[Unit]\nDescription=Restart {service} for a trial\n\n[Service]\nType=oneshot\nExecStart=/usr/bin/systemctl {words}\n",
            service = self.service,
            words = [scope.option(), &["try-restart", &word]].concat().join(" "),
        );
        self.with_header(mark, &body)
    }

    /// The timer's lines below its header.
    pub(crate) fn restart_timer(&self, every: HumanDuration) -> String {
        let delay = (every.0 / RESTART_DELAY_SHARE).min(RESTART_DELAY_MOST).as_secs();
        let seconds = every.0.as_secs_f64();
        format!(
            "[Unit]\nDescription=Restart {service} every {every} for a trial\n\n[Timer]\nOnActiveSec={seconds}s\nOnUnitActiveSec={seconds}s\nAccuracySec=1s\nRandomizedDelaySec={delay}s\nFixedRandomDelay=yes\n",
            service = self.service,
        )
    }

    fn with_header(&self, mark: Mark<'_>, body: &str) -> String {
        // A backslash at the end of a comment would take the next line in, and a line break would end it.
        let plain = |text: &str| text.replace(|c: char| c.is_control() || c == '\\', "/");
        let (trial, id, arm) = (plain(mark.trial), plain(mark.id), plain(&self.arm));
        format!(
            "{line}# Do not edit: putting {trial} back restores what was here before.\n\
             # SHA-256 of the lines below: {sha256}\n{body}",
            line = heaptrial_host::Mark::line(&trial, &id, &arm),
            sha256 = digest(body.as_bytes()),
        )
    }
}

/// What a process must go on running that is left with what it has.
pub fn expected_of(identity: &Identity) -> Expected {
    let own = identity.linkage == Linkage::Libc;
    let mut spec = heaptrial_model::AllocatorSpec::family(&identity.family);
    spec.version = identity.version.clone().filter(|_| !own);
    Expected {
        spec,
        // An upgrade of the C library is no change of treatment.
        version: identity.version.clone().filter(|_| !own),
        object: identity.path.clone().filter(|_| !own),
        sha256: identity.sha256.clone().unwrap_or_default(),
        build_id: identity.build_id.clone().filter(|_| !own),
        settings: identity.settings.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        carried: identity.carried.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn treatment() -> ServiceTreatment {
        ServiceTreatment {
            service: "tor@relay1.service".parse().unwrap(),
            arm: "mimalloc\\".to_owned(),
            family: None,
            environment: vec![("LD_PRELOAD".to_owned(), "/usr/lib/heaptrial/x \"%.so".to_owned())],
            unset: Vec::new(),
            torrc: BTreeMap::new(),
            restart_every: Some("48h".parse().unwrap()),
            expected: Expected::own_c_library("glibc".parse().unwrap(), Vec::new()),
            relay: None,
        }
    }

    #[test]
    fn a_drop_in_is_marked_quoted_and_free_of_specifiers() {
        let text = treatment().drop_in(Mark { trial: "five-way", id: "0123" }).unwrap();
        assert!(text.contains("\nEnvironment=\"LD_PRELOAD=/usr/lib/heaptrial/x \\\"%%.so\"\n"), "{text}");
        let (header, body) = text.split_once("[Service]").unwrap();
        assert!(header.contains("trial five-way (0123), arm mimalloc/.\n"), "{header}");
        assert!(header.contains(&digest(format!("[Service]{body}").as_bytes())), "{header}");
    }
}
