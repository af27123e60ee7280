//! Estimators against reference values and simulations.

mod coverage;
mod kendall_reference;
mod looks;
mod methods_reference;
mod permutation_reference;
mod reference_values;
