//! Where the services of a trial come from.

use crate::word::words;

words! {
    /// Where the services of a trial come from, and who starts them.
    pub enum TrialKind: "kind of a trial" {
        /// A lab run of a command.
        LabCommand = "lab_command",
        /// A lab run of Tor relays in a private network.
        LabTor = "lab_tor",
        /// Read from CSV files, such as those of the Tor operators' scripts.
        ImportTorutils = "import_torutils",
        /// Read from a Prometheus or a store like it.
        ImportPrometheus = "import_prometheus",
        /// A trial on services of this host.
        Field = "field",
        /// One treatment brought to all services, wave by wave.
        Rollout = "rollout",
        /// Services of this host that are sampled and in no trial.
        Host = "host",
        /// Services compared with what they used before.
        Watch = "watch",
    }
}

impl TrialKind {
    /// Whether Heaptrial starts the services itself.
    pub fn is_lab(self) -> bool {
        matches!(self, Self::LabCommand | Self::LabTor)
    }

    pub fn is_import(self) -> bool {
        matches!(self, Self::ImportTorutils | Self::ImportPrometheus)
    }

    /// Whether it is on services of this host that run without Heaptrial too, so that the agent samples them.
    pub fn is_on_services(self) -> bool {
        !self.is_lab() && !self.is_import()
    }

    /// Whether services get a treatment in it, and are restarted for that.
    pub fn treats_services(self) -> bool {
        matches!(self, Self::Field | Self::Rollout)
    }

    /// Whether two of these kinds that go on at once need names of their own: commands that change or watch services find
    /// them by their name alone.
    pub fn shares_names_with(self, other: Self) -> bool {
        self == other || self.treats_services() && other.treats_services()
    }

    /// What it is, in words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::LabCommand => "lab run of a command",
            Self::LabTor => "lab run of Tor relays in a private network",
            Self::ImportTorutils => "field data imported from CSV files",
            Self::ImportPrometheus => "field data imported from a Prometheus",
            Self::Field => "field trial",
            Self::Rollout => "rollout",
            Self::Host => "services of a host as found",
            Self::Watch => "watch of services",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_its_word() {
        for kind in TrialKind::ALL {
            assert_eq!(kind.as_str().parse::<TrialKind>().unwrap(), *kind);
            assert_eq!(serde_json::to_string(kind).unwrap(), format!("\"{kind}\""));
            assert_eq!(serde_json::from_str::<TrialKind>(&format!("\"{kind}\"")).unwrap(), *kind);
        }
        let error = "Field".parse::<TrialKind>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`Field` is no kind of a trial; expected one of lab_command, lab_tor, import_torutils, import_prometheus, \
             field, rollout, host, watch"
        );
        assert!(serde_json::from_str::<TrialKind>("\"five\"").is_err());
    }

    #[test]
    fn a_kind_has_one_source_of_services() {
        for kind in TrialKind::ALL {
            let sources = [kind.is_lab(), kind.is_import(), kind.is_on_services()];
            assert_eq!(sources.iter().filter(|own| **own).count(), 1, "{kind}");
            assert!(kind.is_on_services() || !kind.treats_services(), "{kind}");
        }
    }
}
