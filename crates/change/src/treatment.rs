//! What a treatment means for one service: files, and what its process must then run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use heaptrial_allocator::Expected;
use heaptrial_host::systemd::{UnitEnvironment, quoted};
use heaptrial_host::{Mark, Paths, Scope};
use heaptrial_model::{HumanDuration, Identity, Linkage, ServiceName};
use heaptrial_relay::Relay;
use serde::{Deserialize, Serialize};

use crate::error::ServiceError;
use crate::files::{File, FileState, digest};
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

impl ServiceTreatment {
    /// The files that it brings, which bear the mark of its trial.
    pub(crate) fn files(&self, paths: &Paths, mark: &Mark) -> Vec<File> {
        let mut files = Vec::new();
        files.extend(self.drop_in(mark).map(|text| File::text(paths.drop_in(&self.service), &text)));
        if let (Some(every), Some(timer)) = (self.restart_every, self.timer()) {
            let name = timer.as_str().strip_suffix(".timer").unwrap_or(timer.as_str());
            let service = self.restart_service(paths.scope, mark);
            let text = self.with_header(mark, &self.restart_timer(every));
            let link = paths.unit(&format!("timers.target.wants/{timer}"));
            files.push(File::text(paths.unit(&format!("{name}.service")), &service));
            files.push(File::text(paths.unit(timer.as_str()), &text));
            files.push(File::link(link, &format!("../{timer}")));
        }
        files
    }

    /// Unit files and the drop-in that it needs for itself.
    pub(crate) fn unit_files(&self, paths: &Paths) -> Vec<PathBuf> {
        self.files(paths, &Mark::default()).into_iter().map(|file| file.path).collect()
    }

    /// Every file that it changes, with what is written: of a torrc the lines that are added.
    pub fn preview(&self, paths: &Paths, mark: &Mark) -> Vec<(PathBuf, String)> {
        let shown = |file: File| {
            let text = match &file.state {
                FileState::Link { target } => format!("-> {}\n", target.display()),
                _ => String::from_utf8_lossy(&file.bytes).into_owned(),
            };
            (file.path, text)
        };
        let torrc = self.changed_relay().map(|relay| {
            let lines = self.torrc.iter().map(|(name, value)| format!("{name} {value}\n"));
            (relay.torrc.clone(), lines.collect())
        });
        self.files(paths, mark).into_iter().map(shown).chain(torrc).collect()
    }

    /// The relay, where its torrc is changed.
    pub(crate) fn changed_relay(&self) -> Option<&Relay> {
        self.relay.as_ref().filter(|_| !self.torrc.is_empty())
    }

    /// The drop-in, where the environment is changed.
    fn drop_in(&self, mark: &Mark) -> Option<String> {
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

    fn restart_service(&self, scope: Scope, mark: &Mark) -> String {
        let word = quoted(self.service.as_str());
        let body = format!(
            "[Unit]\nDescription=Restart {service} for a trial\n\n[Service]\nType=oneshot\nExecStart=/usr/bin/systemctl {words}\n",
            service = self.service,
            words = [scope.option(), &["try-restart", &word]].concat().join(" "),
        );
        self.with_header(mark, &body)
    }

    /// The timer's lines below its header.
    fn restart_timer(&self, every: HumanDuration) -> String {
        let delay = (every.0 / RESTART_DELAY_SHARE).min(RESTART_DELAY_MOST).as_secs();
        let seconds = every.0.as_secs_f64();
        format!(
            "[Unit]\nDescription=Restart {service} every {every} for a trial\n\n[Timer]\nOnActiveSec={seconds}s\nOnUnitActiveSec={seconds}s\nAccuracySec=1s\nRandomizedDelaySec={delay}s\nFixedRandomDelay=yes\n",
            service = self.service,
        )
    }

    fn with_header(&self, mark: &Mark, body: &str) -> String {
        // A backslash at the end of a comment would take the next line in, and a line break would end it.
        let plain = |text: &str| text.replace(|c: char| c.is_control() || c == '\\', "/");
        let mark = Mark { name: plain(&mark.name), id: plain(&mark.id) };
        format!(
            "{line}# Do not edit: putting {trial} back restores what was here before.\n\
             # SHA-256 of the lines below: {sha256}\n{body}",
            line = mark.line(&plain(&self.arm)),
            trial = mark.name,
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
        let text = treatment().drop_in(&Mark { name: "five-way".into(), id: "0123".into() }).unwrap();
        assert!(text.contains("\nEnvironment=\"LD_PRELOAD=/usr/lib/heaptrial/x \\\"%%.so\"\n"), "{text}");
        let (header, body) = text.split_once("[Service]").unwrap();
        assert!(header.contains("trial five-way (0123), arm mimalloc/.\n"), "{header}");
        assert!(header.contains(&digest(format!("[Service]{body}").as_bytes())), "{header}");
    }
}
