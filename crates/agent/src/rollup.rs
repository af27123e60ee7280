//! Rolling up old samples, step by step.

use heaptrial_store::RollupHorizon;

use crate::agent::Agent;
use crate::clock::micros;

const EVERY_US: i64 = 3_600_000_000;
/// Between two steps, so that other writers get their turn.
const PAUSE_US: i64 = 200_000;
const SAMPLES_OF_A_STEP: u64 = 1_000;

impl Agent {
    /// One step.
    pub(crate) fn roll_up(&mut self) {
        let now = self.clock.now();
        let keep_us = micros(self.config.keep_raw);
        let horizon = RollupHorizon {
            wall_us: now.wall_us - keep_us,
            host_id: self.host_id,
            boottime_us: now.boottime_us - keep_us,
        };
        self.due.rollup_us = now.boottime_us + EVERY_US;
        let ids = match self.ledger.store.trials_on_services() {
            Ok(ids) => ids,
            Err(error) => return self.ledger.say_unwritable(&error),
        };
        for id in ids {
            match self.ledger.store.roll_up(id, &horizon, SAMPLES_OF_A_STEP) {
                Ok(step) if step.more => {
                    self.due.rollup_us = self.clock.now().boottime_us + PAUSE_US;
                    return;
                }
                Ok(_) => {}
                Err(error) => return self.ledger.say_unwritable(&error),
            }
        }
    }
}
