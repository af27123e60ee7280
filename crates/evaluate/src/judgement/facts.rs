//! What is known of a service besides what an analysis makes of its memory.

use std::collections::HashMap;

use heaptrial_model::{MemorySplit, Metric, SlowSample, TrialKind};
use heaptrial_store::Store;

use crate::judgement::{JudgementError, Rest, Rows};

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
    pub rss_bytes: Option<u64>,
    pub anon_bytes: Option<u64>,
    /// CPU time since start in seconds, where the whole life was sampled.
    pub cpu_seconds: Option<f64>,
    pub smaps: Option<SlowSample>,
    /// RssAnon in bytes when that was taken, which may be days before the last reading.
    pub smaps_anon_bytes: Option<u64>,
    /// Where its memory was at the end of a lab run, or at the last look at which it was read.
    pub memory_split: Option<MemorySplit>,
    /// Consensuses that a relay of a lab took, as far as anything reports them.
    pub consensuses: Option<u32>,
    pub rests: Vec<Rest>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observed {
    pub age_seconds: f64,
    pub readings: u64,
    pub final_bytes: u64,
    pub peak_bytes: u64,
}

impl ServiceFacts {
    pub(crate) fn on_hosts(store: &Store, rows: &Rows) -> Result<Vec<Self>, JudgementError> {
        let anon = match rows.kind {
            TrialKind::ImportTorutils => HashMap::new(),
            _ => last_anon(store, rows)?,
        };
        let facts = |record: &heaptrial_store::ServiceRecord| {
            let life = rows.lives.iter().rposition(|life| life.service_id == record.id);
            let slow = last_slow(store, rows, life)?;
            Ok(Self {
                life,
                anon_bytes: anon.get(&record.id).copied(),
                smaps: slow.map(|(smaps, _)| smaps),
                smaps_anon_bytes: slow.and_then(|(_, anon_bytes)| anon_bytes),
                memory_split: last_split(store, rows, life)?,
                ..Self::default()
            })
        };
        rows.services.iter().map(facts).collect()
    }
}

/// The last expensive reading of a life that counts, with RssAnon in bytes at that time.
pub(crate) fn last_slow(
    store: &Store,
    rows: &Rows,
    life: Option<usize>,
) -> Result<Option<(SlowSample, Option<u64>)>, JudgementError> {
    let Some(life) = life else { return Ok(None) };
    Ok(store.last_slow_sample(rows.lives[life].id, rows.until_us)?)
}

/// Where the memory of a life was when it was last read.
pub(crate) fn last_split(
    store: &Store,
    rows: &Rows,
    life: Option<usize>,
) -> Result<Option<MemorySplit>, JudgementError> {
    let Some(life) = life else { return Ok(None) };
    let mut parts = [0; 4];
    for (part, name) in parts.iter_mut().zip(MemorySplit::OBSERVATIONS) {
        let Some((_, bytes)) = store.observations(&rows.lives[life], name)?.pop() else { return Ok(None) };
        *part = bytes as u64;
    }
    Ok(Some(MemorySplit::from_parts(parts)))
}

/// RssAnon in bytes at the last sample of the trial, by row id of the service.
fn last_anon(store: &Store, rows: &Rows) -> Result<HashMap<i64, u64>, JudgementError> {
    let mut found = HashMap::new();
    let mut late = Vec::new();
    for latest in store.latest(rows.trial.id)? {
        if latest.wall_us > rows.until_us {
            late.push(latest.service_id);
        } else {
            found.extend(latest.anon_bytes.map(|bytes| (latest.service_id, bytes)));
        }
    }
    // Of a trial that has ended, the last before its end.
    for service_id in late {
        let Some(life) = rows.lives.iter().rev().find(|life| life.service_id == service_id) else { continue };
        let age = (rows.until_us - life.started_wall_us) as f64 / 1e6;
        let series = store.series(life, Metric::Rss)?;
        let last = series.iter().rev().find(|point| point.age_seconds <= age);
        found.extend(last.map(|point| (service_id, point.anon_bytes)));
    }
    Ok(found)
}
