//! Reports of real rows, in every form.

mod charts;
mod comparison;
mod digits;
mod document;
mod field;
mod fixture;
mod fleet;
mod forms;
mod page;
mod running;
mod trial;
