//! A database whose file is deleted or replaced while it is open.

use std::fs;

use heaptrial_store::{Store, StoreError};

#[test]
fn a_file_that_was_deleted_or_replaced_is_given_up_and_mixed_with_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let store = Store::create(&path).unwrap();
    assert!(store.is_in_place());
    fs::remove_file(&path).unwrap();
    assert!(!store.is_in_place());
    let other = folder.path().join("other");
    drop(Store::create(&other).unwrap());
    fs::rename(&other, &path).unwrap();
    assert!(!store.is_in_place());
    store.abandon().unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "its log is gone");
    assert!(Store::open(&path).unwrap().is_in_place());
}

#[test]
fn writing_makes_no_database_where_none_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    assert!(matches!(Store::open_for_writing(&path), Err(StoreError::Missing { .. })));
    assert!(!path.exists());
    drop(Store::create(&path).unwrap());
    assert!(Store::open_for_writing(&path).is_ok());
}
