//! Numbers that are asked for while the service runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use heaptrial_relay::http;
use serde_json::Value;

use super::output::number_at;
use super::{Told, Work, WorkSource};

const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How soon the asking ends when it is no more needed.
const STEP: Duration = Duration::from_millis(20);

/// Asks for numbers at an interval, in a thread of its own: sampling must not wait for a slow answer.
#[derive(Debug)]
pub(crate) struct Polling {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    told: Mutex<Vec<Told>>,
    /// How often each measure was told, how often not since it was first, and why not at last.
    failures: Mutex<BTreeMap<String, (u64, u64, String)>>,
    stop: AtomicBool,
}

impl Polling {
    /// Of those of `work` that are not in what the load writes; `None` where there are none.
    pub(crate) fn start(work: &[Work], interval: Duration) -> Option<Self> {
        let work: Vec<Work> = work.iter().filter(|work| !work.source.is_of_load()).cloned().collect();
        if work.is_empty() {
            return None;
        }
        let shared = Arc::new(Shared::default());
        let failures =
            work.iter().map(|work| (work.measure.to_string(), (0, 0, "it was never asked".to_owned())));
        *lock(&shared.failures) = failures.collect();
        let own = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            while !own.stop.load(Ordering::Relaxed) {
                let begun = Instant::now();
                work.iter().for_each(|work| own.ask(work));
                while begun.elapsed() < interval && !own.stop.load(Ordering::Relaxed) {
                    std::thread::sleep(STEP.min(interval));
                }
            }
        });
        Some(Self { shared, thread: Some(thread) })
    }

    /// What was told since this was asked last; of each measure the newest.
    pub(crate) fn told(&self) -> Vec<Told> {
        std::mem::take(&mut *lock(&self.shared.told))
    }

    /// The measures, and whether each was told once.
    pub(crate) fn read(&self) -> Vec<(String, bool)> {
        lock(&self.shared.failures).iter().map(|(name, (read, ..))| (name.clone(), *read > 0)).collect()
    }

    /// What to say of measures that were not told each time.
    pub(crate) fn failures(&self) -> Vec<String> {
        let failures = lock(&self.shared.failures).clone().into_iter();
        let told = failures.filter_map(|(name, (read, failed, why))| match (read, failed) {
            (0, _) => Some(format!("no {name} was read: {why}")),
            (_, 0) => None,
            (read, failed) => {
                let of = read + failed;
                Some(format!(
                    "{name} could not be read {failed} of {of} times after it first was, at last: {why}"
                ))
            }
        });
        told.collect()
    }
}

impl Shared {
    fn ask(&self, work: &Work) {
        let answer = number(&work.source);
        if let Some((read, failed, last)) = lock(&self.failures).get_mut(&work.measure.to_string()) {
            match &answer {
                Ok(_) => *read += 1,
                Err(why) => {
                    *failed += u64::from(*read > 0);
                    last.clone_from(why);
                }
            }
        }
        if let Ok(number) = answer {
            let mut told = lock(&self.told);
            told.retain(|told: &Told| told.measure != work.measure);
            told.push(work.told(number));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn number(source: &WorkSource) -> Result<f64, String> {
    let answer = |url: &str| match http::get(url, ANSWER_PATIENCE)? {
        (200..=299, body) => Ok(body),
        (status, _) => Err(format!("{url} answers with status {status}")),
    };
    match source {
        WorkSource::Http { url, field } => field_of(&answer(url)?, field),
        WorkSource::Prometheus { url, series } => {
            series.sum(&answer(url)?).map_err(|problem| format!("{url} {problem}"))
        }
        WorkSource::File { path, field } => {
            let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
            field_of(&text, field)
        }
        WorkSource::Line(_) | WorkSource::JsonLine(_) | WorkSource::Table { .. } => {
            Err("it is in what the load writes".to_owned())
        }
    }
}

fn field_of(text: &str, field: &str) -> Result<f64, String> {
    let document: Value = match field {
        "" => Value::String(text.trim().to_owned()),
        _ => serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?,
    };
    let what = if field.is_empty() { "a number" } else { field };
    number_at(&document, field)
        .ok_or_else(|| format!("{what} is not in `{}`", text.chars().take(80).collect::<String>()))
}

impl Drop for Polling {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_and_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("count");
        let work = [format!("count:lines=file:{}", path.display()).parse().unwrap()];
        let polling = Polling::start(&work, Duration::from_millis(1)).unwrap();
        while !polling.failures().first().is_some_and(|told| told.contains("count")) {}
        std::fs::write(&path, "12\n").unwrap();
        let told = loop {
            if let Some(told) = polling.told().pop() {
                break told;
            }
        };
        assert_eq!((told.measure.to_string(), told.value), ("count:lines".to_owned(), 12.0));
        assert!(polling.failures().is_empty());
        std::fs::remove_file(&path).unwrap();
        while !polling.failures().first().is_some_and(|told| told.contains("after it first was")) {}
    }

    #[test]
    fn a_field_of_json_is_a_number() {
        let value = |text, field| field_of(text, field);
        assert_eq!(value("{\"a\": {\"b\": 4}}", "a.b"), Ok(4.0));
        assert_eq!(value(" 4.5\n", ""), Ok(4.5));
        assert!(field_of("none", "").unwrap_err().contains("a number is not in `none`"));
    }
}
