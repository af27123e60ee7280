//! One service of a command, with the commands before, alongside and after it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

use heaptrial_model::{KnownEvent, WorkKind, WorkMeasure};
use tempfile::TempDir;

use super::CommandOptions;
use crate::errand::{Errand, ErrandPlace};
use crate::placeholders::Placeholders;
use crate::program::find_program;
use crate::work::{OutputReader, Polling, Reading, Requests, Tail, Work};
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
    /// Figures that came when the load ended.
    last: Vec<(String, f64)>,
    /// What was asked for, and whether there is a figure of it. Of a load that failed nothing is expected.
    work_read: Vec<(String, bool)>,
    folder: Option<TempDir>,
}

struct Load {
    errand: Errand,
    started: Instant,
    /// Whether its end was noticed.
    over: bool,
    reader: OutputReader,
    /// Of standard output and error.
    tails: [Tail; 2],
    /// Positions of the measures of which there is a figure.
    seen: BTreeSet<usize>,
    requests: Requests,
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
            last: Vec::new(),
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
        let words = match treatment.command.as_slice() {
            [] => &self.options.command,
            _ => &treatment.command,
        };
        let mut words = words.iter().map(|word| self.place.placeholders.fill(word));
        let program = words.next().unwrap_or_default();
        let filled = |(name, value): (&String, &String)| (name.clone(), self.place.placeholders.fill(value));
        Launch {
            // One that is missing by now fails to start, and says so.
            program: find_program(&program).unwrap_or_else(|_| program.into()),
            arguments: words.map(OsString::from).collect(),
            environment: treatment.environment.iter().map(filled).collect(),
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
            self.load = Some(Load {
                reader: OutputReader::of(&work),
                tails: errand.outputs().map(|path| Tail::of(path.to_owned())),
                errand,
                started: Instant::now(),
                over: false,
                seen: BTreeSet::new(),
                requests: Requests::default(),
            });
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

    fn work(&mut self, _: usize) -> Vec<(String, f64)> {
        let mut readings: Vec<Reading> = self.polling.iter().flat_map(Polling::readings).collect();
        let mut figures = std::mem::take(&mut self.last);
        if let Some(load) = &mut self.load {
            readings.extend(load.readings(false));
            figures.extend(load.requests.counts());
        }
        figures.extend(one_of_each(&readings));
        figures
    }

    fn finish(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let warning = |text| event(KnownEvent::Warning, text);
        let lived = self.ready_at.map(|ready_at| ready_at.elapsed());
        if let (Some(warm_up), Some(lived)) = (self.options.warm_up, lived) {
            if warm_up >= lived && !self.interrupt.requested() {
                let (warm_up, lived) = (warm_up.as_secs_f64(), lived.as_secs_f64());
                events.push(warning(format!(
                    "it ran for {lived:.1} s, not longer than the warm-up of {warm_up} s asked for"
                )));
            }
        }
        // The last numbers are of the time under load.
        let mut readings = Vec::new();
        if let Some(polling) = self.polling.take() {
            readings.extend(polling.readings());
            events.extend(polling.warnings().into_iter().map(warning));
            self.work_read.extend(polling.read());
        }
        if let Some(mut load) = self.load.take() {
            load.errand.stop();
            readings.extend(load.readings(true));
            self.last.extend(load.requests.counts());
            events.extend(load.requests.warning().map(warning));
            if !load.errand.failed() {
                self.work_read.extend(load.expected());
                events.extend(load.missing().map(warning));
            }
        }
        self.last.extend(one_of_each(&readings));
        if let Some(text) = self.options.conclude.as_ref().filter(|_| !self.interrupt.requested()) {
            let concluded = Errand::start(&self.place, "conclude", text)
                .and_then(|mut errand| errand.wait(&|| !self.interrupt.requested()));
            events.extend(concluded.err().map(warning));
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

/// A number of each measure since the last tick: of a count the newest, else the mean.
fn one_of_each(readings: &[Reading]) -> Vec<(String, f64)> {
    let mut measures: Vec<&WorkMeasure> = Vec::new();
    for Reading { measure, .. } in readings {
        if !measures.contains(&measure) {
            measures.push(measure);
        }
    }
    let of = |measure: &WorkMeasure| {
        let own = readings.iter().filter(|reading| reading.measure == *measure).map(|reading| reading.value);
        let (sum, lines, last) =
            own.fold((0.0, 0.0, 0.0), |(sum, lines, _), value| (sum + value, lines + 1.0, value));
        let number = match measure.kind {
            WorkKind::Count => last,
            WorkKind::Rate | WorkKind::Less => sum / lines,
        };
        (measure.observation(), number)
    };
    measures.into_iter().map(of).collect()
}

impl Load {
    /// The numbers in what it wrote since the last call; at its end also in a line without a line break.
    fn readings(&mut self, at_the_end: bool) -> Vec<Reading> {
        let mut lines: Vec<String> = self.tails.iter_mut().flat_map(Tail::lines).collect();
        if at_the_end {
            lines.extend(self.tails.iter_mut().filter_map(Tail::rest));
        }
        let mut readings = Vec::new();
        for line in &lines {
            self.requests.read(line);
            for (index, reading) in self.reader.read(line) {
                self.seen.insert(index);
                readings.push(reading);
            }
        }
        readings
    }

    /// What was looked for and could not be missing, and whether it was found. Of what a preset looks for something has to be.
    fn expected(&self) -> impl Iterator<Item = (String, bool)> {
        let work = self.reader.work().iter().enumerate();
        let expected = work.filter(|(_, work)| !work.optional || self.seen.is_empty());
        expected.map(|(index, work)| (work.measure.to_string(), self.seen.contains(&index)))
    }

    /// A warning about what was looked for and not found.
    fn missing(&self) -> Option<String> {
        let mut names: Vec<String> =
            self.expected().filter(|(_, read)| !read).map(|(name, _)| name).collect();
        names.dedup();
        let hint = match self.over {
            true => "",
            false => {
                "; it was ended before its end: if it writes that at its end, give it less time than --duration"
            }
        };
        let log = self.errand.outputs()[0].display();
        (!names.is_empty()).then(|| format!("the load wrote no {}{hint}; see {log}", names.join(", ")))
    }
}
