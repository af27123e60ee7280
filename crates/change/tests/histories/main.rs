//! The transaction on a host in memory: the very machine and executor of the program, cut short before every operation,
//! with everything that may happen beside it. Whatever happens, no service is left stopped, every file is as before or as
//! wanted, and a resume and a revert come to their end.

mod disk;
mod fleet;
mod history;
mod ledger;
mod random;
mod services;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fleet::{Faults, service};
use history::{Command, Counts, History, Process};
use random::Random;
use services::Fault;
use world::{Happening, Loss};

/// At least so many in all.
const HISTORIES: u64 = 100_000;
/// Histories that are drawn. `HEAPTRIAL_HISTORIES` draws another number of them (and where it is smaller cuts as much less
/// often), `HEAPTRIAL_HISTORIES_FROM` others.
const DRAWN: u64 = 54_000;

/// What may follow a process that was cut short. Each ends with a revert besides.
fn sequels(random: &mut Random) -> Vec<Vec<Process>> {
    let cut = |random: &mut Random| {
        let at = random.below(250);
        let happening = if random.one_in(2) { Happening::Kill } else { Happening::PowerCut(random.next()) };
        vec![(at, happening)]
    };
    vec![
        vec![],
        vec![(Command::Resume, vec![])],
        vec![(Command::Recover, vec![]), (Command::Resume, vec![]), (Command::Stop, vec![])],
        vec![(Command::Recover, cut(random)), (Command::Recover, vec![])],
        vec![(Command::Resume, cut(random)), (Command::Resume, cut(random)), (Command::Resume, vec![])],
        vec![(Command::Revert, cut(random)), (Command::Recover, cut(random))],
        vec![(Command::Parts, cut(random)), (Command::Recover, vec![]), (Command::Parts, vec![])],
    ]
}

fn fleets() -> Vec<Faults> {
    vec![
        vec![(0, Fault::None)],
        vec![(0, Fault::Start)],
        vec![(0, Fault::Hangs)],
        vec![(1, Fault::None), (2, Fault::None)],
        vec![(1, Fault::CrashLoop), (2, Fault::None)],
        vec![(1, Fault::None), (2, Fault::Dies)],
        vec![(1, Fault::Ends), (2, Fault::None)],
        vec![(0, Fault::None), (1, Fault::Start), (2, Fault::None)],
    ]
}

/// Every command that a cut can hit, with what was there before it.
fn beginnings() -> Vec<Vec<Command>> {
    use Command::{Parts, Recover, Resume, Revert, Start, Stop};
    vec![
        vec![Start],
        vec![Start, Revert],
        vec![Start, Resume],
        vec![Start, Stop],
        vec![Parts],
        vec![Start, Recover],
        vec![Start, Command::Drop],
    ]
}

/// A part of all histories: one fleet and one beginning, cut before every operation (or every so many) in three ways.
fn walk(faults: &Faults, commands: &[Command], every: usize, counts: &mut Counts) {
    let mut random = Random::new(faults.len() as u64 * 31 + commands.len() as u64);
    let base = History { faults: faults.clone(), at_once: 2, budget: 1, processes: Vec::new() };
    let mut first = vec![(commands[0], Vec::new())];
    if commands.last() == Some(&Command::Recover) {
        // There is something to recover only if the start was cut short.
        first[0].1 = vec![(150, Happening::Kill)];
    }
    let (host, length) = match commands {
        [_] => (None, History { processes: first, ..base.clone() }.length_of_first()),
        [_, second, ..] => {
            first.push((*second, Vec::new()));
            let (host, length) = History { processes: first, ..base.clone() }.after_first();
            (Some(host), length)
        }
        [] => return,
    };
    let command = *commands.last().unwrap_or(&Command::Start);
    for at in (0..=length).step_by(every) {
        let cuts = [Happening::Kill, Happening::PowerCut(0), Happening::PowerCut(random.next())];
        for cut in cuts {
            // Two of all that may follow.
            let all = sequels(&mut random);
            for _ in 0..2 {
                let sequel = random.pick(&all).clone();
                let mut processes = vec![(command, vec![(at, cut.clone())])];
                processes.extend(sequel);
                let history = History { processes, ..base.clone() };
                match &host {
                    Some(host) => history.run_on(&host.copy(), counts),
                    None => history.run(counts),
                }
            }
        }
    }
}

/// Anything in any order.
fn any(seed: u64) -> History {
    let random = &mut Random::new(seed);
    let faults = [
        Fault::None,
        Fault::None,
        Fault::None,
        Fault::Start,
        Fault::Hangs,
        Fault::Dies,
        Fault::Ends,
        Fault::CrashLoop,
    ];
    let mut fleet: Faults = (0..3).map(|number| (number, *random.pick(&faults))).collect();
    let left_out = random.below(5) as usize;
    fleet.retain(|(number, _)| *number != left_out);
    let (at_once, budget) = (1 + random.below(3) as u32, 1 + random.below(2) as u32);
    let first = if random.one_in(4) { Command::Parts } else { Command::Start };
    let mut processes = vec![(first, happenings(random, &fleet))];
    let commands = [
        Command::Resume,
        Command::Resume,
        Command::Revert,
        Command::Recover,
        Command::Parts,
        Command::Stop,
        Command::Drop,
    ];
    for _ in 0..random.below(4) {
        processes.push((*random.pick(&commands), happenings(random, &fleet)));
    }
    History { faults: fleet, at_once, budget, processes }
}

fn happenings(random: &mut Random, fleet: &Faults) -> Vec<(u64, Happening)> {
    let mut list = Vec::new();
    for _ in 0..random.below(4) {
        // Often before a process has done anything.
        let at = if random.one_in(4) { 0 } else { random.below(400) };
        let victim = service(random.pick(fleet).0);
        list.push((
            at,
            match random.below(17) {
                0 | 1 => Happening::Kill,
                2 | 3 => Happening::PowerCut(random.next()),
                4 => Happening::Restart(victim),
                5 => Happening::Drift(victim),
                6 => Happening::Full(1 + random.below(60)),
                7 => Happening::Refusal,
                8 => Happening::BusLost(Loss::Heard),
                9 => Happening::BusLost(Loss::Unheard),
                10 | 11 => Happening::Stop(victim),
                12 => Happening::Gone(victim),
                13 => Happening::Back(victim),
                14 => Happening::Operator,
                15 => Happening::Removed(victim),
                _ => Happening::Timer,
            },
        ));
    }
    list
}

/// Once a history has failed, nobody begins another one.
struct StopsOthers<'n>(&'n AtomicUsize);

impl Drop for StopsOthers<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(usize::MAX / 2, Ordering::Relaxed);
        }
    }
}

#[test]
fn whatever_happens_services_run_files_are_known_and_resume_and_revert_end() {
    let mut work: Vec<(Faults, Vec<Command>)> = Vec::new();
    for faults in fleets() {
        work.extend(beginnings().into_iter().map(|commands| (faults.clone(), commands)));
    }
    let wanted = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let drawn = wanted("HEAPTRIAL_HISTORIES").unwrap_or(DRAWN);
    let first = wanted("HEAPTRIAL_HISTORIES_FROM").unwrap_or(0);
    let every = (DRAWN / drawn.max(1)).max(1) as usize;
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Counts::default());
    let began = std::time::Instant::now();
    let one_after_the_other = || {
        let _others = StopsOthers(&next);
        let mut counts = Counts::default();
        while let Some((faults, commands)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
            walk(faults, commands, every, &mut counts);
        }
        // The rest is drawn.
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed) as u64;
            if seed >= drawn + work.len() as u64 {
                break;
            }
            any(first + seed).run(&mut counts);
        }
        *total.lock().unwrap() += counts;
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(one_after_the_other)).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    let counts = total.into_inner().unwrap();
    eprintln!("{counts:?} in {:.1?}", began.elapsed());
    let (least, of_each) = if drawn < DRAWN { (drawn, drawn / 10) } else { (HISTORIES, 10_000) };
    assert!(counts.histories >= least, "{counts:?}");
    assert!(
        counts.kills > of_each && counts.power_cuts > of_each && counts.other_happenings > of_each,
        "{counts:?}"
    );
}

#[test]
fn what_somebody_stops_between_its_files_and_its_turn_stays_stopped() {
    let faults: Faults = (0..3).map(|number| (number, Fault::None)).collect();
    let stays = |(at, number)| {
        let stop = (Command::Start, vec![(at, Happening::Stop(service(number)))]);
        let history = History { faults: faults.clone(), at_once: 1, budget: 1, processes: vec![stop] };
        history.leaves_stopped(&service(number))
    };
    assert!((0..400).flat_map(|at| [(at, 1), (at, 2)]).any(stays));
}
