//! The page of all commands in the book, `docs/commands.md`, made from their definitions by `make book`.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command};

use crate::command_line;

/// Pages that tell more of a command, by the beginning of its name.
const PAGES: [(&str, &str); 14] = [
    ("allocators package", "install.md"),
    ("agent", "agent.md"),
    ("explain", "explain.md"),
    ("import", "import.md"),
    ("lab bisect", "lab-tune.md"),
    ("lab tune", "lab-tune.md"),
    ("preflight", "trial-plan.md"),
    ("report", "lab-tune.md"),
    ("rollout", "rollout.md"),
    ("serve", "agent.md"),
    ("trial look", "trial-plan.md"),
    ("trial plan", "trial-plan.md"),
    ("trial stop", "rollback-by-hand.md"),
    ("watch", "watch.md"),
];

/// Every command that does something, with its whole name below `heaptrial`.
fn leaves(command: &Command, above: &str) -> Vec<(String, Command)> {
    let own = command.get_subcommands().filter(|found| !found.is_hide_set() && found.get_name() != "help");
    own.flat_map(|found| {
        let name = format!("{above}{}", found.get_name());
        // A command with options of its own is told as a whole; what is below it takes options of others.
        let is_own = |argument: &Arg| !argument.is_global_set() && argument.get_id() != "help";
        let has_own = found.get_arguments().any(is_own);
        match found.has_subcommands() && !has_own {
            true => leaves(found, &format!("{name} ")),
            false => vec![(name, found.clone())],
        }
    })
    .collect()
}

/// Text of a definition as it stands between the bars of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn about(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help());
    let mut text = cell(&help.map(ToString::to_string).unwrap_or_default());
    let values: Vec<_> = argument.get_possible_values();
    let takes_values = argument.get_action().takes_values();
    let names: Vec<String> = values
        .iter()
        .filter(|value| takes_values && !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !names.is_empty() {
        let _ = write!(text, "; one of {}", names.join(", "));
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes_values && !defaults.is_empty() {
        let _ = write!(text, " (default `{}`)", defaults.join(" "));
    }
    text
}

fn option(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let value: String = names.iter().map(|name| format!(" {name}")).collect();
    let value = if argument.get_action().takes_values() { value } else { String::new() };
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let words: Vec<String> = short.into_iter().chain(long).collect();
    match words.is_empty() {
        true => value.trim().to_owned(),
        false => words.join(", ") + &value,
    }
}

fn table(page: &mut String, arguments: &[&Arg]) {
    page.push_str("| option | |\n|---|---|\n");
    for argument in arguments {
        let _ = writeln!(page, "| `{}` | {} |", option(argument), about(argument));
    }
    page.push('\n');
}

fn page() -> String {
    let mut whole = command_line();
    whole.build();
    let visible = |argument: &&Arg| {
        !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str())
    };
    let mut page = String::from("# Commands\n\nOptions of every command:\n\n");
    let global: Vec<&Arg> = whole.get_arguments().filter(visible).collect();
    table(&mut page, &global);
    for (name, mut command) in leaves(&whole, "") {
        let _ = writeln!(page, "## {name}\n");
        let text = command.get_long_about().or(command.get_about()).map(ToString::to_string);
        let more = PAGES.iter().find(|(of, _)| format!("{name} ").starts_with(&format!("{of} ")));
        let more = more.map_or(String::new(), |(_, file)| format!(" ([more]({file}))"));
        let _ = writeln!(page, "{}{more}\n", text.unwrap_or_default().replace('<', "&lt;").trim_end());
        let usage = command.render_usage().to_string();
        let usage = usage.trim_start_matches("Usage:").trim();
        let _ = writeln!(page, "```\n{usage}\n```\n");
        let own: Vec<&Arg> =
            command.get_arguments().filter(visible).filter(|argument| !argument.is_global_set()).collect();
        if !own.is_empty() {
            table(&mut page, &own);
        }
    }
    page
}

#[test]
fn the_page_of_commands_has_each_of_them() {
    let page = page();
    for (name, _) in leaves(&command_line(), "") {
        assert!(page.contains(&format!("## {name}\n")), "{name}");
    }
    if let Some(path) = std::env::var_os("HEAPTRIAL_COMMANDS_PAGE") {
        std::fs::write(path, page).unwrap();
    }
}

#[test]
fn every_option_of_every_command_has_help() {
    let mut whole = command_line();
    whole.build();
    for (name, command) in [("heaptrial".to_owned(), whole.clone())].into_iter().chain(leaves(&whole, "")) {
        assert!(command.get_about().is_some(), "{name}");
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "{name}: {}", argument.get_id());
        }
    }
}

#[test]
fn every_page_that_tells_more_is_there() {
    let whole = command_line();
    for (name, file) in PAGES {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file).is_file(), "{file}");
        let known = leaves(&whole, "");
        assert!(known.iter().any(|(own, _)| format!("{own} ").starts_with(&format!("{name} "))), "{name}");
    }
}
