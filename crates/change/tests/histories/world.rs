//! A host in memory: files that lose what was not synced, services, timers, and time that passes when somebody waits.
//! Each operation is counted, and things happen before the operation that a history names.

use std::cell::{Cell, RefCell};
use std::io;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::time::Duration;

use heaptrial_change::edges::{Clock, Host};
use heaptrial_change::journal::Action;
use heaptrial_model::ServiceName;

use crate::disk::Files;
use crate::history::others_beside_a_process;
use crate::random::Random;
use crate::services::Services;

/// How long an operation takes.
const OPERATION: Duration = Duration::from_micros(100);
/// A run that asks more often than this does not end.
const MOST_OPERATIONS: u64 = 20_000;

/// Unwinds to the end of the process that was cut short.
pub struct Cut;

/// What happens before an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
    /// The process is killed.
    Kill,
    /// The power goes; what was not synced is lost in part, by this seed.
    PowerCut(u64),
    /// Somebody restarts a service.
    Restart(ServiceName),
    /// Somebody writes into a file that the transaction changes, if it is there.
    Drift(ServiceName),
    /// Somebody removes the drop-in of a service.
    Removed(ServiceName),
    /// The disk is full for so many operations.
    Full(u64),
    /// One call to the service manager fails.
    Refusal,
    /// systemd leaves the bus. What can be asked twice is asked again below this edge; results of jobs are not heard any
    /// more, and the next restart may or may not be.
    BusLost(Loss),
    /// Somebody stops a service.
    Stop(ServiceName),
    /// Somebody removes, renames or masks a service's unit.
    Gone(ServiceName),
    /// Somebody brings it back.
    Back(ServiceName),
    /// Another operator has a go at the same services.
    Operator,
    /// The recovery timer fires while the process is at work.
    Timer,
}

/// What becomes of a call that systemd leaves without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// It was not heard.
    Unheard,
    /// It was.
    Heard,
}

/// The host.
pub struct World {
    pub files: RefCell<Files>,
    pub services: RefCell<Services>,
    pub locked: Rc<Cell<bool>>,
    now: Cell<Duration>,
    operations: Cell<u64>,
    /// What is to happen, by operation of the process that runs.
    script: RefCell<Vec<(u64, Happening)>>,
    full_until: Cell<u64>,
    refuse: Cell<bool>,
    loss: Cell<Option<Loss>>,
    /// Number of the connection to the service manager.
    pub connection: Cell<u64>,
    /// Operations of all processes.
    pub steps: Cell<u64>,
    /// Whether a full disk or a failed call may have left what no complete run has put right since.
    pub hindered: Cell<bool>,
    /// Whether somebody removed files that no complete run has written again since.
    pub missing: Cell<bool>,
    /// Whether something of the script is happening.
    busy: Cell<bool>,
}

impl World {
    pub fn new(files: Files, services: Services) -> Self {
        Self {
            files: RefCell::new(files),
            services: RefCell::new(services),
            locked: Rc::default(),
            now: Cell::new(Duration::from_secs(1)),
            operations: Cell::new(0),
            script: RefCell::default(),
            full_until: Cell::new(0),
            refuse: Cell::new(false),
            loss: Cell::new(None),
            connection: Cell::new(0),
            steps: Cell::new(0),
            hindered: Cell::new(false),
            missing: Cell::new(false),
            busy: Cell::new(false),
        }
    }

    /// The same host once more.
    pub fn copy(&self) -> Self {
        let copy = Self::new(self.files.borrow().clone(), self.services.borrow().clone());
        copy.now.set(self.now.get());
        copy
    }

    pub fn host(&self) -> Host<'_> {
        Host { disk: self, manager: self, programs: self, clock: self }
    }

    /// A process begins, in which these things will happen.
    pub fn begin(&self, mut script: Vec<(u64, Happening)>) {
        script.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        *self.script.borrow_mut() = script;
        self.files.borrow_mut().know_drift();
        self.operations.set(0);
        self.full_until.set(0);
        self.refuse.set(false);
        self.loss.set(None);
    }

    /// The process is gone, and with it its lock; its script did not come to its end.
    pub fn end(&self) -> u64 {
        self.script.borrow_mut().clear();
        self.full_until.set(0);
        self.refuse.set(false);
        self.locked.set(false);
        self.operations.get()
    }

    pub fn power_cut(&self, seed: u64) {
        self.files.borrow_mut().power_cut(&mut Random::new(seed));
        self.locked.set(false);
        self.services.borrow_mut().boot(&self.files.borrow(), self.now.get());
    }

    /// Before each operation.
    pub fn operate(&self) {
        self.now.set(self.now.get() + OPERATION);
        if self.busy.get() {
            return;
        }
        let at = self.operations.get();
        self.operations.set(at + 1);
        self.steps.set(self.steps.get() + 1);
        assert!(at < MOST_OPERATIONS, "it does not end");
        while self.script.borrow().last().is_some_and(|(due, _)| *due <= at) {
            let Some((_, happening)) = self.script.borrow_mut().pop() else { return };
            self.busy.set(true);
            self.happen(happening, at);
            self.busy.set(false);
        }
    }

    fn happen(&self, happening: Happening, at: u64) {
        match happening {
            Happening::Kill => {
                self.busy.set(false);
                resume_unwind(Box::new(Cut));
            }
            Happening::PowerCut(seed) => {
                self.busy.set(false);
                self.power_cut(seed);
                resume_unwind(Box::new(Cut));
            }
            Happening::Restart(service) => {
                self.services.borrow_mut().restart(&service, self.now.get(), &self.files.borrow());
            }
            Happening::Drift(service) => self.files.borrow_mut().drift(&service),
            Happening::Removed(service) => {
                if self.files.borrow_mut().remove_drop_in(&service) {
                    self.missing.set(true);
                }
            }
            Happening::Full(operations) => self.full_until.set(at + operations),
            Happening::Refusal => self.refuse.set(true),
            Happening::BusLost(loss) => {
                self.connection.set(self.connection.get() + 1);
                self.loss.set(Some(loss));
            }
            Happening::Stop(service) => self.services.borrow_mut().stop(&service),
            Happening::Gone(service) => self.services.borrow_mut().set_gone(&service, true),
            Happening::Back(service) => self.services.borrow_mut().set_gone(&service, false),
            Happening::Timer => others_beside_a_process(self, &[Action::Recover]),
            Happening::Operator => {
                others_beside_a_process(self, &[Action::Resume, Action::Revert, Action::Drop, Action::Stop]);
            }
        }
    }

    /// Fails where the disk is full.
    pub fn space(&self) -> io::Result<()> {
        if self.operations.get() <= self.full_until.get() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    /// Whether this call is the one that fails.
    pub fn refuses(&self) -> bool {
        self.refuse.replace(false)
    }

    /// What becomes of this call, if systemd leaves the bus with it.
    pub fn loses(&self) -> Option<Loss> {
        self.loss.take()
    }

    pub fn pass(&self, time: Duration) {
        self.now.set(self.now.get() + time);
        self.services.borrow_mut().advance(self.now.get(), &self.files.borrow());
    }

    pub fn time(&self) -> Duration {
        self.now.get()
    }
}

impl Clock for World {
    fn now(&self) -> Duration {
        self.now.get()
    }

    fn wall_us(&self) -> i64 {
        self.now.get().as_micros() as i64
    }

    fn sleep(&self, time: Duration) {
        self.operate();
        self.pass(time);
    }
}
