//! Exports a trial: `cargo run --release -p heaptrial-exchange --example export -- DATABASE TRIAL_ID FORMAT FILE`

use heaptrial_exchange::{ExportFormat, export};
use heaptrial_store::Store;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [database, trial_id, format, path] = &arguments[..] else {
        return Err("expected DATABASE TRIAL_ID FORMAT FILE".into());
    };
    let format: ExportFormat = format.parse()?;
    let store = Store::open(database.as_ref())?;
    let samples = export(&store, trial_id.parse()?, format, &mut std::fs::File::create(path)?)?;
    println!("{samples} samples");
    Ok(())
}
