//! The database.

mod database;
mod field;
mod file;
mod imported;
