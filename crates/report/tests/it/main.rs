//! Reports of real rows, in every form.

mod bisect;
mod charts;
mod comparison;
mod document;
mod field;
mod fixture;
mod fleet;
mod forms;
mod page;
mod running;
mod schema;
mod trial;
mod tune;
