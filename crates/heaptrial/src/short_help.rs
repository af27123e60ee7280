//! Which options `-h` leaves out, so that it fits on a screen; `--help` has all of them.

use clap::Command;

/// Options that a first run does without, by their names in code.
const LEFT_OUT: [&str; 44] = [
    "about",
    "accept_partial",
    "arrivals",
    "basic_file",
    "ca_file",
    "cells",
    "cert_file",
    "circuit_life",
    "color",
    "conclude",
    "connections",
    "count",
    "end_signal",
    "entries",
    "events",
    "from",
    "grace",
    "headers_file",
    "keep_dirs",
    "key_file",
    "like",
    "metric",
    "ntor_rate",
    "on",
    "processors",
    "ready_timeout",
    "replica_label",
    "rest",
    "retain",
    "server_label",
    "slurm",
    "sources",
    "stay",
    "step",
    "strict",
    "swap",
    "tick",
    "to",
    "together",
    "userland",
    "verbose",
    "warm_up",
    "work_margin",
    "work_within",
];

pub fn shorten(command: Command) -> Command {
    let shortened = command.mut_args(|option| {
        let is_left_out = LEFT_OUT.contains(&option.get_id().as_str());
        if is_left_out { option.hide_short_help(true) } else { option }
    });
    shortened.mut_subcommands(shorten)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_fits(command: &mut Command, name: &str) {
        let help = command.render_help().to_string();
        assert!(help.lines().count() <= 40, "{name} -h has {} lines:\n{help}", help.lines().count());
        for below in command.get_subcommands_mut() {
            let name = format!("{name} {}", below.get_name());
            assert_fits(below, &name);
        }
    }

    #[test]
    fn short_help_fits_on_a_screen() {
        let mut whole = crate::command_line().term_width(100);
        whole.build();
        assert_fits(&mut whole, "heaptrial");
    }
}
