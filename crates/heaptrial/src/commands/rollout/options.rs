//! The options of `heaptrial rollout start`.

use std::path::PathBuf;

use clap::Args;
use heaptrial_model::{AllocatorSpec, HumanDuration, ServicePattern, TrialName};
use heaptrial_rollout::{QuietHours, WaveSizes};

use crate::commands::allocators::SourceOptions;

/// What is rolled out, to which services, and how carefully.
#[derive(Debug, Args)]
pub struct StartOptions {
    /// An ended trial of this host that measured it, or an adoption
    #[arg(value_name = "TRIAL", required_unless_present_any = ["allocator", "verdict"])]
    pub(super) trial: Option<TrialName>,
    /// Which arm of the trial
    #[arg(long, value_name = "ARM")]
    pub(super) arm: Option<String>,
    /// An allocator in place of a trial's arm; needs --services
    #[arg(long, value_name = "SPEC", conflicts_with_all = ["trial", "arm"])]
    pub(super) allocator: Option<AllocatorSpec>,
    /// What a trial elsewhere found of an arm, as `heaptrial trial verdict` wrote it; needs --services
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trial", "arm", "allocator", "unmeasured"])]
    pub(super) verdict: Option<PathBuf>,
    /// The digest that the verdict's file must have
    #[arg(long, value_name = "SHA256", requires = "verdict")]
    pub(super) verdict_sha256: Option<String>,
    /// Go on though this host is unlike those of the verdict: the canary is the first service of its kind
    #[arg(long, requires = "verdict")]
    pub(super) new_stratum: bool,
    /// Go on though the trial found that the arm bloats, or has grave findings about it; what is accepted so is kept in the rollout's record
    #[arg(long)]
    pub(super) despite_findings: bool,
    /// Which services, such as 'tor@*'; those of the trial without it
    #[arg(long, value_name = "PATTERN", num_args = 1..)]
    pub(super) services: Vec<ServicePattern>,
    /// The rollout's name [default: TRIAL-rollout]
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<TrialName>,
    /// Services of the first wave
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) canary: u32,
    /// Share of all services that run it after each further wave
    #[arg(long, value_name = "LIST", default_value = "5%,25%,100%")]
    pub(super) waves: WaveSizes,
    /// How long each wave is watched before the next; of further waves the last of them
    #[arg(long, value_name = "LIST", default_value = "1d", value_delimiter = ',')]
    pub(super) soak: Vec<HumanDuration>,
    /// From one service's restart to the next one's, at least
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub(super) pause: HumanDuration,
    /// Services that are down or not yet healthy at any time, at most; two of one family never are
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) at_once: u32,
    /// A service that is not healthy this long after its restart has failed
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    pub(super) health_timeout: HumanDuration,
    /// A healthy service must stay so for this long before it counts
    #[arg(long, value_name = "DURATION", default_value = "3s")]
    pub(super) settle: HumanDuration,
    /// Hours of the day in which no further service is changed, in the host's time zone, such as 08:00-20:00
    #[arg(long, value_name = "FROM-TO")]
    pub(super) quiet_hours: Option<QuietHours>,
    /// Roll out a treatment (build, settings, torrc options, restarts) that no trial of this host measured
    #[arg(long)]
    pub(super) unmeasured: bool,
    /// Hold memory to what each service used before, and not to the trial's forecast
    #[arg(long)]
    pub(super) no_forecast: bool,
    /// Do not hold gates to what relays did before: their work, and their Guard and V2Dir flags
    #[arg(long)]
    pub(super) no_work: bool,
    /// Return once it is begun: a transient unit of systemd carries it out, and no terminal has to stay
    #[arg(long, conflicts_with = "dry_run")]
    pub(super) detach: bool,
    /// Start without asking
    #[arg(long)]
    pub(super) yes: bool,
    /// Show what would be changed, and change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Do not install and start the agent that samples the services
    #[arg(long)]
    pub(super) no_agent: bool,
    #[command(flatten)]
    pub(super) sources: SourceOptions,
}
