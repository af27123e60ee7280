//! Estimators against reference values and simulations.

mod coverage;
mod looks;
mod methods_reference;
mod permutation_reference;
mod reference_values;
