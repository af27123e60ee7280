//! Imports files into a new database and prints the summary as JSON.
//!
//! `cargo run --release -p heaptrial-exchange --example import -- DATABASE MEMORY.csv [--groups FILE]...
//! [--config FILE] [--events FILE] [--diagnostics FILE] [--timezone ZONE]`

use std::path::PathBuf;

use heaptrial_exchange::{TorUtilsImport, import_torutils};
use heaptrial_store::Store;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let database = arguments.next().ok_or("name a database")?;
    let mut request = TorUtilsImport { tool_version: "example".into(), ..TorUtilsImport::default() };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or("an option lacks its value");
        match argument.as_str() {
            "--groups" => request.groups.push(PathBuf::from(value()?)),
            "--config" => request.config = Some(PathBuf::from(value()?)),
            "--events" => request.events = Some(PathBuf::from(value()?)),
            "--diagnostics" => request.diagnostics = Some(PathBuf::from(value()?)),
            "--timezone" => request.timezone = Some(value()?.parse()?),
            "--name" => request.name = Some(value()?),
            file => request.memory.push(PathBuf::from(file)),
        }
    }
    let mut store = Store::create(database.as_ref())?;
    let summary = import_torutils(&mut store, &request)?;
    println!("{}", serde_json::to_string_pretty(&summary)?);
    Ok(())
}
