//! Old folders of a host's transactions.

use heaptrial_change::{Ledger, free};
use heaptrial_host::Paths;

use crate::fleet::{NAME, pace, prepared, service};
use crate::services::Fault;

#[test]
fn a_damaged_folder_refuses_the_services_of_its_trial_alone_and_is_named() {
    let state = tempfile::tempdir().unwrap();
    let paths = Paths { state: state.path().to_owned(), ..Paths::default() };
    let folder = paths.trial(NAME);
    std::fs::create_dir_all(&folder).unwrap();
    let text = serde_json::to_string(&prepared(&vec![(0, Fault::None)], pace(1, 1), false)).unwrap();
    std::fs::write(folder.join("prepared.json"), text).unwrap();
    std::fs::write(folder.join("journal.jsonl"), "{}\n{}\n").unwrap();
    let claims = || Ledger::of_this_host(&paths).unwrap().claims();
    let known = claims();
    assert!(free(&known, [&service(1)].into_iter()).is_ok());
    let why = free(&known, [&service(0)].into_iter()).unwrap_err().to_string();
    assert!(why.contains(&format!("move {} away", folder.display())), "{why}");

    // Of which services it is nobody knows: that refuses nobody.
    std::fs::write(folder.join("prepared.json"), "{").unwrap();
    assert!(claims().is_empty());
}
