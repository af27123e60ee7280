//! What is known of a service beside what an analysis makes of its memory.

use heaptrial_model::{MemorySplit, SlowSample};

use crate::judgement::Rest;

/// Of a service in the order of [`Rows::services`]; of the life that stands for it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServiceFacts {
    /// Position of that life in [`Rows::lives`].
    pub life: Option<usize>,
    /// Why it is in no figure of its arm, where a lab run left it out; a trial on hosts leaves nobody out.
    pub excluded: Option<String>,
    /// Whether it is proved that it ran its arm's treatment, though a lab run left it out: it crashed, or was killed.
    pub left_out_proved: bool,
    /// Age in seconds, number, last and highest in bytes of its readings, counted or not.
    pub observed: Option<Observed>,
    /// Last RSS in bytes.
    pub rss_bytes: Option<u64>,
    /// Last RssAnon in bytes.
    pub anon_bytes: Option<u64>,
    /// CPU time since start in seconds, where the whole life was sampled.
    pub cpu_seconds: Option<f64>,
    pub smaps: Option<SlowSample>,
    /// RssAnon in bytes when that was taken, which may be days before the last reading.
    pub smaps_anon_bytes: Option<u64>,
    /// Where its memory was at the end of a lab run.
    pub memory_split: Option<MemorySplit>,
    /// Consensuses that a relay of a lab took, as far as anything tells of them.
    pub consensuses: Option<u32>,
    pub rests: Vec<Rest>,
}

/// The readings of the metric of one life.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observed {
    /// Age at the last one in seconds.
    pub age_seconds: f64,
    pub readings: u64,
    /// The last one in bytes.
    pub final_bytes: u64,
    /// The highest one in bytes.
    pub peak_bytes: u64,
}
