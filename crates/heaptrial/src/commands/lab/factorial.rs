//! `--factorial GOOD,BAD --settings NAME`: the arms that tell a version from its default settings.

use clap::Args;
use heaptrial_allocator::{Catalog, Crossed};
use heaptrial_model::{AllocatorSpec, FactorialDesign, Side};

use crate::commands::value::ValueError;
use crate::exit::Failure;

/// Two builds.
#[derive(Debug, Clone)]
pub struct Pair {
    good: AllocatorSpec,
    bad: AllocatorSpec,
}

/// Options that make the arms.
#[derive(Debug, Args)]
pub struct FactorialOptions {
    /// Arms that tell a version from its default settings: both builds under both builds' defaults of --settings
    #[arg(long, value_name = "GOOD,BAD", value_parser = pair, requires = "settings", conflicts_with_all = ["allocators", "arms"])]
    factorial: Option<Pair>,
    /// Settings of --factorial, and further values such as purge_delay=0
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = crossed, value_delimiter = ',', requires = "factorial")]
    settings: Vec<Crossed>,
}

fn pair(text: &str) -> Result<Pair, ValueError> {
    let form = "GOOD,BAD, such as mimalloc@2.1.7,mimalloc@3.0.1";
    let (good, bad) = text.split_once(',').ok_or(ValueError::Expected(form))?;
    Ok(Pair { good: good.trim().parse()?, bad: bad.trim().parse()? })
}

fn crossed(text: &str) -> Result<Crossed, ValueError> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    if name.is_empty() || value.is_some_and(str::is_empty) {
        return Err(ValueError::Expected("NAME or NAME=VALUE, such as purge_delay or purge_delay=0"));
    }
    Ok(Crossed { name: name.to_owned(), value: value.map(str::to_owned) })
}

impl FactorialOptions {
    /// The design, if one is asked for.
    pub fn design(&self) -> Result<Option<FactorialDesign>, Failure> {
        let Some(Pair { good, bad }) = &self.factorial else { return Ok(None) };
        Catalog::builtin().factorial(good, bad, &self.settings).map(Some).map_err(Failure::usage)
    }

    /// The options as words of a command line.
    pub fn words(&self) -> Vec<String> {
        let Some(Pair { good, bad }) = &self.factorial else { return Vec::new() };
        let settings = self.settings.iter().map(|setting| match &setting.value {
            Some(value) => format!("{}={value}", setting.name),
            None => setting.name.clone(),
        });
        let settings = settings.collect::<Vec<_>>().join(",");
        vec![
            format!("--factorial {}", shell_words::quote(&format!("{good},{bad}"))),
            format!("--settings {}", shell_words::quote(&settings)),
        ]
    }
}

/// Tells which cells are what a build has anyway.
pub fn describe(design: &FactorialDesign) {
    for side in Side::BOTH {
        if let Some(level) = design.default_of(side) {
            eprintln!("{} is {} as it comes", design.spec(side, level), design.build(side));
        }
    }
}
