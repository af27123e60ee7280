//! The page of all commands in the book, `docs/commands.md`, made from their help by `make book`.

use clap::{Arg, Command, CommandFactory as _};

use crate::Cli;

/// Every command that does something, with its whole name below `heaptrial`.
fn leaves(command: &Command, above: &str) -> Vec<(String, Command)> {
    let own = command.get_subcommands().filter(|found| !found.is_hide_set() && found.get_name() != "help");
    own.flat_map(|found| {
        let name = format!("{above}{}", found.get_name());
        // A command with options of its own is described as a whole; what is below it takes options of others.
        let is_own = |argument: &Arg| !argument.is_global_set() && argument.get_id() != "help";
        let has_own = found.get_arguments().any(is_own);
        match found.has_subcommands() && !has_own {
            true => leaves(found, &format!("{name} ")),
            false => vec![(name, found.clone())],
        }
    })
    .collect()
}

#[test]
fn the_page_of_commands_has_each_of_them_with_help_for_every_option() {
    let mut whole = Cli::command();
    whole.build();
    let mut page = "# Commands\n".to_owned();
    for (name, mut command) in [(String::new(), whole.clone())].into_iter().chain(leaves(&whole, "")) {
        assert!(command.get_about().is_some(), "{name}");
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "{name}: {}", argument.get_id());
        }
        page += &format!("\n## heaptrial {name}\n\n```text\n{}\n```\n", command.render_long_help());
    }
    if let Some(path) = std::env::var_os("HEAPTRIAL_COMMANDS_PAGE") {
        std::fs::write(path, page).unwrap();
    }
}
