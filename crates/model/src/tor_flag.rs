//! What the directory says of a Tor relay.

use crate::word::words;

words! {
    /// The flags in Tor's consensus that say what a relay is used for (dir-spec, "Assigning flags in a vote").
    /// Further ones, such as `Running` and `Valid`, decide nothing here.
    pub enum TorFlag: "flag of a relay" {
        /// Clients may take it for the first hop of their circuits.
        Guard = "Guard",
        /// For circuits that live long.
        Stable = "Stable",
        /// For circuits that need bandwidth.
        Fast = "Fast",
        /// Keeps descriptors of onion services.
        HSDir = "HSDir",
        /// Its policy lets much traffic out.
        Exit = "Exit",
        V2Dir = "V2Dir",
    }
}

impl TorFlag {
    /// The name of the observation that says whether a relay has it: 1 or 0.
    pub fn observation(self) -> &'static str {
        match self {
            Self::Guard => "tor_flag_guard",
            Self::Stable => "tor_flag_stable",
            Self::Fast => "tor_flag_fast",
            Self::HSDir => "tor_flag_hsdir",
            Self::Exit => "tor_flag_exit",
            Self::V2Dir => "tor_flag_v2dir",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_is_named_after_its_flag() {
        for flag in TorFlag::ALL {
            assert_eq!(flag.observation(), format!("tor_flag_{flag}").to_lowercase());
            assert_eq!(flag.as_str().parse::<TorFlag>().unwrap(), *flag);
        }
        assert!("guard".parse::<TorFlag>().is_err());
    }
}
