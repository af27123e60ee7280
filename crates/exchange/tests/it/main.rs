//! Imports, exports and gathering.

mod bad_input;
mod columns;
mod export;
mod gather;
mod import;
mod labels;
mod operators;
mod other_stores;
mod support;
