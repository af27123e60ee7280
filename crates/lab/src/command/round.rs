//! One service of a command, with what is run before, beside and after it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

use heaptrial_model::{KnownEvent, WorkKind, WorkMeasure};
use tempfile::TempDir;

use super::CommandOptions;
use crate::errand::{Errand, ErrandPlace};
use crate::placeholders::Placeholders;
use crate::program::find_program;
use crate::work::{Failed, OutputReader, Polling, Tail, Told, Work};
use crate::workload::{Event, Launch, Round, RoundContext, Slot, SlotState};
use crate::{Interrupt, LabError};

pub(super) struct CommandRound {
    options: CommandOptions,
    slot: Slot,
    place: ErrandPlace,
    interrupt: Interrupt,
    /// What was started before the service, with what it left running.
    prepared: Option<Errand>,
    /// When the service could be used.
    ready_at: Option<Instant>,
    load: Option<Load>,
    polling: Option<Polling>,
    /// Numbers that were told and not asked for yet.
    unread: RefCell<Vec<Told>>,
    /// The same of requests that failed.
    unread_counts: RefCell<Vec<(String, f64)>>,
    /// The last number of each count, and how often one fell.
    counts: RefCell<BTreeMap<String, (f64, u32)>>,
    /// What was asked for, and whether something was told of it. Of a load that failed nothing is expected.
    work_read: Vec<(String, bool)>,
    folder: Option<TempDir>,
}

struct Load {
    errand: Errand,
    started: Instant,
    /// Whether its end was told.
    over: bool,
    written: RefCell<Written>,
}

struct Written {
    reader: OutputReader,
    /// Of standard output and error.
    tails: Vec<Tail>,
    /// Positions of the measures of which something was told.
    seen: BTreeSet<usize>,
    failed: Failed,
}

impl CommandRound {
    pub(super) fn new(
        options: CommandOptions,
        context: &RoundContext<'_>,
        port: u16,
    ) -> Result<Self, LabError> {
        let slot = context.slots[0].clone();
        let folder = tempfile::Builder::new().prefix("heaptrial-").tempdir();
        let folder = folder.map_err(LabError::file(std::env::temp_dir()))?;
        let place = ErrandPlace {
            supervisor: context.supervisor.to_owned(),
            logs: context.logs.to_owned(),
            service: slot.service.clone(),
            placeholders: Placeholders {
                port,
                dir: folder.path().to_owned(),
                arm: slot.arm.arm.name.clone(),
                repeat: context.repeat + 1,
                seed: context.seed,
            },
        };
        Ok(Self {
            options,
            slot,
            place,
            folder: Some(folder),
            unread: RefCell::default(),
            unread_counts: RefCell::default(),
            counts: RefCell::default(),
            work_read: Vec::new(),
            interrupt: context.interrupt.clone(),
            prepared: None,
            ready_at: None,
            load: None,
            polling: None,
        })
    }

    /// The files that the service writes to.
    fn logs(&self) -> [PathBuf; 2] {
        ["stdout", "stderr"].map(|stream| self.place.logs.join(format!("{}.{stream}", self.place.service)))
    }
}

impl Round for CommandRound {
    fn launch(&self, _: usize) -> Launch {
        let treatment = &self.slot.arm.arm.treatment;
        let words: Vec<OsString> = match treatment.command.as_slice() {
            [] => self.options.command.clone(),
            own => own.iter().map(OsString::from).collect(),
        };
        let mut words = words.iter().map(|word| self.place.placeholders.fill_os(word));
        let program = words.next().unwrap_or_default();
        let filled = |(name, value): (&String, &String)| (name.clone(), self.place.placeholders.fill(value));
        Launch {
            // One that is missing by now fails to start, and says so.
            program: find_program(&program).unwrap_or_else(|_| program.into()),
            arguments: words.collect(),
            environment: treatment.environment.iter().map(filled).collect(),
            working_directory: None,
            counted: self.options.counted.clone(),
            end: self.options.end,
        }
    }

    fn prepare(&mut self, _: usize) -> Result<(), String> {
        let Some(text) = &self.options.prepare else { return Ok(()) };
        let mut errand = Errand::start(&self.place, "prepare", text)?;
        let outcome = errand.wait(&|| !self.interrupt.requested());
        self.prepared = Some(errand);
        outcome
    }

    fn ready(&mut self, _: usize, alive: &dyn Fn() -> bool) -> Result<bool, String> {
        if let Some(ready) = &self.options.ready {
            let goes_on = || alive() && !self.interrupt.requested();
            ready.fill(&self.place.placeholders).wait(self.options.ready_patience, &self.logs(), &goes_on)?;
        }
        let work: Vec<Work> =
            self.options.work.iter().map(|work| work.fill(&self.place.placeholders)).collect();
        self.polling = Polling::start(&work, self.options.tick);
        if let Some(text) = &self.options.load {
            let errand = Errand::start(&self.place, "load", text)?;
            let written = Written {
                reader: OutputReader::of(&work),
                tails: errand.outputs().map(|path| Tail::of(path.to_owned())).into(),
                seen: BTreeSet::new(),
                failed: Failed::default(),
            };
            self.load =
                Some(Load { errand, started: Instant::now(), over: false, written: RefCell::new(written) });
        }
        self.ready_at = Some(Instant::now());
        Ok(self.options.ready.is_some() || self.options.load.is_some())
    }

    fn tick(&mut self, _: &[SlotState<'_>]) -> Result<Vec<Event>, LabError> {
        let Some(load) = self.load.as_mut().filter(|load| !load.over) else { return Ok(Vec::new()) };
        let Some(ended) = load.errand.ended() else { return Ok(Vec::new()) };
        let ended = ended.clone();
        load.over = true;
        let after = load.started.elapsed().as_secs_f64();
        Ok(match ended {
            Err(why) => vec![event(KnownEvent::ArmFailed, why)],
            Ok(()) if self.options.ends_with_load => Vec::new(),
            Ok(()) => {
                let text =
                    format!("the load ended by itself after {after:.1} s; from then on the service was idle");
                vec![event(KnownEvent::Warning, text)]
            }
        })
    }

    fn is_over(&self) -> bool {
        let Some(load) = self.load.as_ref().filter(|load| load.over) else { return false };
        self.options.ends_with_load || load.errand.failed()
    }

    fn observe(&self, _: usize) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    fn work(&self, _: usize) -> Vec<(String, f64)> {
        let mut told = std::mem::take(&mut *self.unread.borrow_mut());
        told.extend(self.load.iter().flat_map(|load| load.written.borrow_mut().told()));
        told.extend(self.polling.iter().flat_map(Polling::told));
        follow_counts(&mut self.counts.borrow_mut(), &told);
        let mut numbers = one_of_each(&told);
        numbers.append(&mut self.unread_counts.borrow_mut());
        numbers.extend(self.load.iter().flat_map(|load| load.written.borrow_mut().failed.counts()));
        numbers
    }

    fn finish(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let lived = self.ready_at.map(|ready_at| ready_at.elapsed());
        if let (Some(warm_up), Some(lived)) = (self.options.warm_up, lived) {
            if warm_up >= lived && !self.interrupt.requested() {
                let (warm_up, lived) = (warm_up.as_secs_f64(), lived.as_secs_f64());
                let text =
                    format!("it ran for {lived:.1} s, not longer than the warm-up of {warm_up} s asked for");
                events.push(event(KnownEvent::Warning, text));
            }
        }
        // The last numbers are of the time under load.
        if let Some(polling) = self.polling.take() {
            self.unread.borrow_mut().extend(polling.told());
            events.extend(polling.failures().into_iter().map(|told| event(KnownEvent::Warning, told)));
            self.work_read.extend(polling.read());
        }
        if let Some(mut load) = self.load.take() {
            load.errand.stop();
            let written = load.written.get_mut();
            self.unread.borrow_mut().extend(written.told_to_the_end());
            self.unread_counts.get_mut().extend(written.failed.counts());
            events.extend(written.failed.told().map(|told| event(KnownEvent::Warning, told)));
            if !load.errand.failed() {
                self.work_read.extend(written.expected());
            }
            if let Some(missing) = written.missing().filter(|_| !load.errand.failed()) {
                let log = load.errand.outputs()[0].display().to_string();
                let hint = if load.over {
                    ""
                } else {
                    "; it was ended before its end: if it tells that at its end, give it less time than --duration"
                };
                events.push(event(
                    KnownEvent::Warning,
                    format!("the load wrote no {missing}{hint}; see {log}"),
                ));
            }
        }
        follow_counts(self.counts.get_mut(), &self.unread.borrow());
        for (name, (_, times)) in self.counts.get_mut().iter().filter(|(_, (_, times))| *times > 0) {
            let text = format!(
                "{name} fell, and so began anew, {times} times: what was done between the two readings is not known, and that time \
                 is left out"
            );
            events.push(event(KnownEvent::Warning, text));
        }
        if let Some(text) = self.options.conclude.as_ref().filter(|_| !self.interrupt.requested()) {
            let concluded = Errand::start(&self.place, "conclude", text)
                .and_then(|mut errand| errand.wait(&|| !self.interrupt.requested()));
            events.extend(concluded.err().map(|why| event(KnownEvent::Warning, why)));
        }
        if let Some(folder) = self.folder.take_if(|_| self.options.keep_dirs) {
            events.push(event(KnownEvent::Note, format!("its folder {} is kept", folder.keep().display())));
        }
        events
    }

    fn work_read(&self) -> Vec<(String, bool)> {
        self.work_read.clone()
    }
}

fn event(kind: KnownEvent, text: String) -> Event {
    Event { slot: Some(0), kind, text }
}

/// Takes note of counts that fall.
fn follow_counts(counts: &mut BTreeMap<String, (f64, u32)>, told: &[Told]) {
    for Told { measure, value } in told.iter().filter(|told| told.measure.kind == WorkKind::Count) {
        let (last, times) = counts.entry(measure.to_string()).or_insert((*value, 0));
        *times += u32::from(value < last);
        *last = *value;
    }
}

/// A number of each measure that was told since the last tick: of a count the newest, else the mean of those that were told.
fn one_of_each(told: &[Told]) -> Vec<(String, f64)> {
    let mut measures: Vec<&WorkMeasure> = Vec::new();
    for Told { measure, .. } in told {
        if !measures.contains(&measure) {
            measures.push(measure);
        }
    }
    let mut numbers = Vec::new();
    for measure in measures {
        let own = told.iter().filter(|told| told.measure == *measure).map(|told| told.value);
        let (sum, lines, last) =
            own.fold((0.0, 0.0, 0.0), |(sum, lines, _), value| (sum + value, lines + 1.0, value));
        let number = match measure.kind {
            WorkKind::Count => last,
            WorkKind::Rate | WorkKind::Less => sum / lines,
        };
        numbers.push((measure.observation(), number));
    }
    numbers
}

impl Written {
    fn told(&mut self) -> Vec<Told> {
        let lines: Vec<String> = self.tails.iter_mut().flat_map(Tail::lines).collect();
        self.read(&lines)
    }

    fn told_to_the_end(&mut self) -> Vec<Told> {
        let mut lines: Vec<String> = self.tails.iter_mut().flat_map(Tail::lines).collect();
        lines.extend(self.tails.iter_mut().filter_map(Tail::rest));
        self.read(&lines)
    }

    fn read(&mut self, lines: &[String]) -> Vec<Told> {
        let mut told = Vec::new();
        lines.iter().for_each(|line| self.failed.read(line));
        for (index, number) in lines.iter().flat_map(|line| self.reader.read(line)) {
            self.seen.insert(index);
            told.push(number);
        }
        told
    }

    /// What was looked for and could not be missing, and whether it was told. Of what a preset looks for something has to be.
    fn expected(&self) -> impl Iterator<Item = (String, bool)> {
        let work = self.reader.work().iter().enumerate();
        let expected = work.filter(|(_, work)| !work.optional || self.seen.is_empty());
        expected.map(|(index, work)| (work.measure.to_string(), self.seen.contains(&index)))
    }

    /// What was looked for and not told.
    fn missing(&self) -> Option<String> {
        let mut names: Vec<String> =
            self.expected().filter(|(_, read)| !read).map(|(name, _)| name).collect();
        names.dedup();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(numbers: &[(&str, f64)]) -> Vec<Told> {
        let told = |(measure, value): &(&str, f64)| Told { measure: measure.parse().unwrap(), value: *value };
        numbers.iter().map(told).collect()
    }

    #[test]
    fn of_what_was_told_since_a_tick_there_is_one_number_of_each_measure() {
        let told = told(&[
            ("tps", 10.0),
            ("count:served", 5.0),
            ("less:p99_ms", 3.0),
            ("tps", 20.0),
            ("count:served", 9.0),
        ]);
        let expected = [("work:rate:tps", 15.0), ("work:count:served", 9.0), ("work:less:p99_ms", 3.0)];
        assert_eq!(one_of_each(&told), expected.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn a_count_that_falls_is_told() {
        let mut counts = BTreeMap::new();
        for value in [5.0, 9.0, 2.0, 2.0, 1.0] {
            follow_counts(&mut counts, &told(&[("count:served", value), ("tps", -value)]));
        }
        assert_eq!(counts, BTreeMap::from([("count:served".to_owned(), (1.0, 2))]));
    }
}
