//! One real relay under trial: its folder and torrc.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use heaptrial_relay::{Program, TorError};

use crate::authority::{Past, diffs_from};

/// What all relays under trial have in common.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RelayParameters {
    /// `NumCPUs`: worker threads, each with an arena of its own under glibc.
    pub num_cpus: u32,
    pub torrc: BTreeMap<String, String>,
}

impl RelayParameters {
    /// Relays start a worker thread for each processor, up to this many (`MAX_DETECTABLE_CPUS`, since 0.4.7.11).
    pub const WORKERS_AT_MOST: u32 = 128;

    /// Worker threads of a relay whose arm has these options.
    pub fn workers(&self, arm: &BTreeMap<String, String>) -> u32 {
        let set = arm.iter().chain(&self.torrc).find(|(option, _)| option.eq_ignore_ascii_case("NumCPUs"));
        set.and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(self.num_cpus)
    }

    /// As on a machine with so many processors.
    pub fn on(processors: u32) -> Self {
        Self { num_cpus: processors.min(Self::WORKERS_AT_MOST), torrc: BTreeMap::new() }
    }
}

/// Options that no arm may set.
const OWN_OPTIONS: [&str; 13] = [
    "TestingTorNetwork",
    "RunAsDaemon",
    "ORPort",
    "DirPort",
    "SocksPort",
    "Address",
    "AssumeReachable",
    "DirAuthority",
    "ControlPort",
    "ControlPortWriteToFile",
    "CookieAuthentication",
    "DataDirectory",
    "Log",
];

/// A relay's folder with all that Tor needs to start it.
#[derive(Debug, Clone)]
pub struct RelayInstance {
    folder: PathBuf,
}

impl RelayInstance {
    /// Whether a torrc option, or one that Tor would take its name for an abbreviation of, is the lab's own:
    /// with another value the relay would leave loopback or could not be watched.
    pub fn owns(option: &str) -> bool {
        let option = option.to_ascii_lowercase();
        OWN_OPTIONS.iter().any(|own| own.to_ascii_lowercase().starts_with(&option))
    }

    /// Writes the folder of a relay: torrc, and places for data and log. `extra` torrc options replace
    /// those of the lab or are added.
    pub fn create(
        folder: &Path,
        nickname: &str,
        parameters: &RelayParameters,
        authority_line: &str,
        extra: &BTreeMap<String, String>,
    ) -> Result<Self, TorError> {
        if folder.to_string_lossy().contains(['"', '\\', '#', '\n', '\r']) {
            let problem =
                "the folder's name has a character that a torrc cannot hold: \" \\ # or a line break"
                    .to_owned();
            return Err(TorError::Content { path: folder.to_owned(), problem });
        }
        let instance = Self { folder: folder.to_owned() };
        let data = instance.data();
        fs::create_dir_all(&data).map_err(TorError::file(&data))?;
        fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).map_err(TorError::file(&data))?;
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(TorError::file(path))
        };
        write("torrc", &instance.torrc(nickname, parameters, authority_line, extra))?;
        write("defaults-torrc", "")?;
        write("geoip", "")?;
        // A relay looks up names only for exits; should it ever, it asks loopback.
        write("resolv.conf", "nameserver 127.0.0.1\n")?;
        Ok(instance)
    }

    fn torrc(
        &self,
        nickname: &str,
        parameters: &RelayParameters,
        authority_line: &str,
        extra: &BTreeMap<String, String>,
    ) -> String {
        let path = |name: &str| format!("\"{}\"", self.folder.join(name).display());
        let mut options: Vec<(&str, String)> = [
            ("TestingTorNetwork", "1"),
            ("RunAsDaemon", "0"),
            ("SafeLogging", "0"),
            ("ShutdownWaitLength", "0"),
            // /proc/PID/maps of a process that forbids debuggers is readable by root alone.
            ("DisableDebuggerAttachment", "0"),
            ("ConnLimit", "60"),
            ("SocksPort", "0"),
            ("ORPort", "127.0.0.1:auto"),
            ("Address", "127.0.0.1"),
            ("AssumeReachable", "1"),
            ("ExitRelay", "0"),
            ("ExitPolicy", "reject *:*"),
            ("ContactInfo", "lab@example.invalid"),
            ("DirCache", "1"),
            // A relay that is no cache would fetch from other relays, and the synthetic ones do not answer.
            ("FetchDirInfoEarly", "1"),
            // The authority answers with the next consensus once it is published; the highest value without a warning.
            ("TestingDirConnectionMaxStall", "3600 seconds"),
            ("ControlPort", "127.0.0.1:auto"),
            ("CookieAuthentication", "1"),
        ]
        .map(|(name, value)| (name, value.to_owned()))
        .into();
        options.extend([
            ("Nickname", nickname.to_owned()),
            ("NumCPUs", parameters.num_cpus.to_string()),
            ("DataDirectory", path("data")),
            // Not quoted: the path is only a part of this value.
            ("Log", format!("notice file {}", self.log().display())),
            ("ControlPortWriteToFile", path("control-port")),
            ("ServerDNSResolvConfFile", path("resolv.conf")),
            // With the country database a relay's memory would depend on a package being installed.
            ("GeoIPFile", path("geoip")),
            ("GeoIPv6File", path("geoip")),
        ]);
        let mut text = String::from("# Written by heaptrial for one lab run.\n");
        let of_all = parameters.torrc.iter().map(|(name, value)| (name.as_str(), value.clone()));
        options.retain(|(name, _)| !parameters.torrc.keys().any(|option| option.eq_ignore_ascii_case(name)));
        options.extend(of_all);
        for (name, value) in &options {
            if !extra.keys().any(|option| option.eq_ignore_ascii_case(name)) {
                text.push_str(&format!("{name} {value}\n"));
            }
        }
        for (name, value) in extra {
            text.push_str(&format!("{name} {value}\n"));
        }
        text.push_str(&format!("{authority_line}\n"));
        text
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Lets it have retained consensuses of the past; before it starts.
    pub fn retain(&self, past: &Past) -> Result<(), TorError> {
        past.write(&self.data())
    }

    /// From how many older consensuses it has made diffs; 0 where that cannot be read.
    pub fn diffs_from(&self) -> usize {
        diffs_from(&self.data()).unwrap_or_default()
    }

    /// The arguments of `tor` that start the relay in the foreground.
    pub fn arguments(&self) -> Vec<OsString> {
        vec![
            // Warnings and errors only, until the log file of the torrc is open.
            "--hush".into(),
            "--defaults-torrc".into(),
            self.folder.join("defaults-torrc").into(),
            "-f".into(),
            self.folder.join("torrc").into(),
        ]
    }

    /// Lets `tor` check the torrc.
    pub fn verify(&self, tor: &Path) -> Result<(), TorError> {
        let mut arguments = self.arguments();
        arguments.push("--verify-config".into());
        Program { path: tor.to_owned(), arguments }.run(Duration::from_secs(60)).map(drop)
    }

    /// Removes keys and cached documents; torrc and log stay.
    pub fn remove_data(&self) {
        // What cannot be removed harms nobody.
        let _ = fs::remove_dir_all(self.data());
        let _ = fs::remove_file(self.folder.join("control-port"));
    }

    pub fn log(&self) -> PathBuf {
        self.folder.join("notice.log")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_keep_the_network_private_belong_to_the_lab() {
        for option in ["ORPort", "orport", "DirAuth", "Log", "controlport"] {
            assert!(RelayInstance::owns(option), "{option}");
        }
        for option in ["DirCache", "MaxMemInQueues", "NumCPUs", "LogTimeGranularity"] {
            assert!(!RelayInstance::owns(option), "{option}");
        }
    }

    #[test]
    fn options_of_an_arm_replace_those_of_the_lab() {
        let dir = tempfile::tempdir().unwrap();
        let parameters = RelayParameters::on(16);
        let extra = BTreeMap::from([
            ("dircache".to_owned(), "0".to_owned()),
            ("MaxMemInQueues".to_owned(), "1 GB".to_owned()),
        ]);
        RelayInstance::create(dir.path(), "r0", &parameters, "DirAuthority x", &extra).unwrap();
        let torrc = fs::read_to_string(dir.path().join("torrc")).unwrap();
        assert!(torrc.contains("dircache 0\n") && !torrc.contains("DirCache 1"), "{torrc}");
        assert!(torrc.contains("NumCPUs 16\n") && torrc.contains("MaxMemInQueues 1 GB\n"));
        assert!(torrc.ends_with("DirAuthority x\n"));
    }
}
