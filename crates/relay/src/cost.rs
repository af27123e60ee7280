use std::time::Duration;

use heaptrial_model::TorFlag;

use super::Relay;

/// Tor's default of ShutdownWaitLength.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(30);
const SHUTDOWN: &str = "tor(1), ShutdownWaitLength";
const FLAGS: &str = "dir-spec, \"Assigning flags in a vote\"";
const PATHS: &str = "path-spec, \"Guard nodes\"";

/// What one restart costs a relay and those who use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestartCost {
    /// How long tor goes on for clients that it has, after it was told to stop (ShutdownWaitLength).
    pub shutdown_wait: Duration,
    /// How long the HSDir flag is away afterwards, where the relay has it.
    pub hsdir_absence: Option<Duration>,
    /// All of it in words.
    pub facts: Vec<CostFact>,
}

/// One thing that a restart costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostFact {
    /// What.
    pub what: String,
    /// Where that is written.
    pub source: &'static str,
}

impl Relay {
    /// What a restart costs this relay. `flags` are those that it has in the consensus; where they are not known, all
    /// that its role may have are assumed.
    pub fn restart_cost(&self, flags: Option<&[TorFlag]>) -> RestartCost {
        let shutdown_wait =
            self.options.get("ShutdownWaitLength").and_then(|value| interval(value)).unwrap_or(SHUTDOWN_WAIT);
        let is_client = self.role == "client";
        let may_have = |flag: TorFlag| match flags {
            Some(flags) => flags.contains(&flag),
            // Bridges are not in the consensus.
            None => matches!(self.role.as_str(), "relay" | "exit"),
        };
        let mut facts = Vec::new();
        let mut fact = |what: String, source| facts.push(CostFact { what, source });
        if is_client {
            fact(
                "all circuits and streams of its clients and onion services end".to_owned(),
                "tor(1), SIGNALS",
            );
        } else {
            let seconds = shutdown_wait.as_secs();
            fact(
                format!("takes no new circuits for {seconds} s, then stops; all circuits through it end"),
                SHUTDOWN,
            );
        }
        if may_have(TorFlag::Stable) {
            fact(
                "ends a run that counts for Stable: weighted MTBF at least the median of relays, or 7 days"
                    .to_owned(),
                FLAGS,
            );
        }
        let hsdir_absence = may_have(TorFlag::HSDir).then_some(Duration::from_secs(96 * 3600));
        if hsdir_absence.is_some() {
            fact(
                "loses HSDir until it has been up for 96 hours, and only with Stable and Fast".to_owned(),
                FLAGS,
            );
        }
        if may_have(TorFlag::Guard) {
            fact(
                "minutes of downtime hardly change the weighted fractional uptime that Guard needs (at least the \
                 median of familiar relays); if Stable goes, Guard goes with it"
                    .to_owned(),
                FLAGS,
            );
            fact("clients whose guard it is use another one while it is away".to_owned(), PATHS);
        }
        RestartCost { shutdown_wait, hsdir_absence, facts }
    }
}

/// An interval as tor writes it: `30`, `30 seconds`, `1 minute`.
fn interval(text: &str) -> Option<Duration> {
    let mut words = text.split_whitespace();
    let count: u64 = words.next()?.parse().ok()?;
    let unit = match words.next().unwrap_or("seconds").trim_end_matches('s') {
        "second" => 1,
        "minute" => 60,
        "hour" => 3600,
        _ => return None,
    };
    count.checked_mul(unit).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use heaptrial_host::HostRoot;

    use super::*;

    fn relay(torrc: &str) -> Relay {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("torrc"), torrc).unwrap();
        let command = ["tor", "-f", "/torrc"].map(String::from);
        Relay::of_command(&HostRoot::at(dir.path()), &command, None).unwrap().unwrap()
    }

    #[test]
    fn a_restart_costs_what_the_relay_has() {
        let relay = relay("ORPort 9001\nShutdownWaitLength 1 minute\n");
        let unknown = relay.restart_cost(None);
        assert_eq!(unknown.shutdown_wait, Duration::from_secs(60));
        assert_eq!(unknown.hsdir_absence, Some(Duration::from_secs(96 * 3600)));
        let without = relay.restart_cost(Some(&[TorFlag::Fast]));
        assert_eq!((without.hsdir_absence, without.facts.len()), (None, 1));
        let guard = relay.restart_cost(Some(&[TorFlag::Guard, TorFlag::Stable]));
        assert_eq!((guard.hsdir_absence, guard.facts.len()), (None, 4));
    }

    #[test]
    fn bridges_and_clients_have_no_flags_to_lose() {
        let bridge = relay("ORPort 9001\nBridgeRelay 1\n").restart_cost(None);
        assert_eq!((bridge.shutdown_wait, bridge.facts.len()), (SHUTDOWN_WAIT, 1));
        assert_eq!(relay("SocksPort 9050\n").restart_cost(None).facts.len(), 1);
    }
}
