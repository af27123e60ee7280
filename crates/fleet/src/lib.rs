//! What follows a trial on a host: its treatment brought to the services in waves, and a watch over what then runs.

pub mod rollout;
pub mod watch;
