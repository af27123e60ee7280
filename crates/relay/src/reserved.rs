//! Options that no trial may set.

/// A reason, and the options that it holds for; `*` at the end stands for any rest. Lists are those of tor 0.4.9's `GETINFO
/// config/names`, types LineList, Dependent and Virtual.
const RESERVED: &[(&str, &str)] = &[
    (
        "it decides who the relay is to the network: with another value it starts again without its standing",
        "Nickname ContactInfo MyFamily FamilyId FamilyKeyDirectory KeyDirectory* DataDirectory* \
         CacheDirectory* OfflineMasterKey SigningKeyLifetime",
    ),
    (
        "it decides where the relay listens or how it is reached",
        "ORPort* DirPort* ExtORPort* Address AddressDisableIPv6 AssumeReachable* OutboundBindAddress* \
         ServerTransport* DisableNetwork HTTPProxy* HTTPSProxy* Socks4Proxy* Socks5Proxy* TCPProxy \
         ReachableAddresses ReachableDirAddresses ReachableORAddresses FascistFirewall FirewallPorts",
    ),
    (
        "it changes the relay's role, so that its memory says nothing about the treatment",
        "BridgeRelay BridgeDistribution PublishServerDescriptor ExitRelay ExitPolicy* ReducedExitPolicy \
         IPv6Exit ClientOnly DirPolicy Bridge UseBridges",
    ),
    (
        "it decides which network the relay belongs to",
        "DirAuthority* Alternate* FallbackDir UseDefaultFallbackDirs Testing* ConsensusParams \
         AuthoritativeDirectory AuthDir* BridgeAuthoritativeDir BridgePassword \
         VersioningAuthoritativeDirectory V3* Recommended* MinUptimeHidServDirectoryV2",
    ),
    (
        "the trial watches the relay through it",
        "ControlPort* ControlSocket* HashedControlPassword CookieAuth* MetricsPort* Log SyslogIdentityTag",
    ),
    (
        "systemd starts and stops the relay through it",
        "User RunAsDaemon PidFile KeepBindCapabilities UnixSocksGroupWritable",
    ),
    (
        "it belongs to a service for others, not to the relay's own work",
        "HiddenService* SocksPort* SocksPolicy DNSPort* HTTPTunnelPort* NATDPort* TransPort* TransProxyType \
         ClientTransportPlugin ClientOnionAuthDir MapAddress NodeFamily",
    ),
    ("it is internal to tor", "__*"),
    ("it reads other files, whose bytes the trial would have to keep as well", "%include"),
];

/// Why an option, or one that tor would take its name for an abbreviation of, cannot be a treatment.
pub(super) fn reason(option: &str) -> Option<&'static str> {
    let option = option.to_ascii_lowercase();
    let covers = |pattern: &str| {
        let pattern = pattern.to_ascii_lowercase();
        match pattern.strip_suffix('*') {
            Some(start) => option.starts_with(start) || start.starts_with(&option),
            None => pattern.starts_with(&option),
        }
    };
    RESERVED.iter().find(|(_, options)| options.split(' ').any(covers)).map(|(reason, _)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_identity_and_network_have_a_reason_and_those_of_memory_have_none() {
        for option in
            ["ORPort", "orport", "DataDir", "HiddenServicePort", "__ORPort", "Log", "MyFamily", "%include"]
        {
            assert!(reason(option).is_some(), "{option}");
        }
        for option in [
            "DirCache",
            "NumCPUs",
            "MaxMemInQueues",
            "MaxConsensusAgeForDiffs",
            "LogTimeGranularity",
            "RelayBandwidthRate",
            "ShutdownWaitLength",
            "DisableAllSwap",
            "ConnectionPadding",
            "Sandbox",
        ] {
            assert_eq!(reason(option), None, "{option}");
        }
    }
}
