//! The options of `heaptrial rollout start`.

use clap::Args;
use heaptrial_fleet::rollout::{QuietHours, WaveSizes};
use heaptrial_model::{HumanDuration, ServicePattern, TrialName};

use crate::commands::host::Consent;

#[derive(Debug, Args)]
pub struct StartOptions {
    /// An ended trial of this host, a verdict's file as `heaptrial trial verdict` wrote it, or an allocator such as jemalloc@5.3.0
    #[arg(value_name = "TRIAL|FILE|SPEC")]
    pub(super) what: String,
    /// Which arm of the trial
    #[arg(long, value_name = "ARM")]
    pub(super) arm: Option<String>,
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
    /// From one service's restart to the next one's, at least [default: that of the trial, or 30s]
    #[arg(long, value_name = "DURATION")]
    pub(super) pause: Option<HumanDuration>,
    /// Services that are down or not yet healthy at any time, at most; two of one family never are [default: that of the trial, or 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) at_once: Option<u32>,
    /// Hours of the day in which no further service is changed, in the host's time zone, such as 08:00-20:00
    #[arg(long, value_name = "FROM-TO")]
    pub(super) quiet_hours: Option<QuietHours>,
    /// Do not hold gates to what relays did before: their work, and their Guard and V2Dir flags
    #[arg(long)]
    pub(super) no_work: bool,
    /// Start though something speaks against it: no trial measured it, its trial found that it bloats, this host is unlike those of the
    /// trial. The reason and what is accepted so are kept in the rollout's record
    #[arg(long, value_name = "REASON")]
    pub(super) force: Option<String>,
    /// Return once it is begun: a transient unit of systemd carries it out, and no terminal has to stay
    #[arg(long, conflicts_with = "dry_run")]
    pub(super) detach: bool,
    #[command(flatten)]
    pub(super) consent: Consent,
}
