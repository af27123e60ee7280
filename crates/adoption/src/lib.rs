//! Services that somebody gave an allocator by hand, taken over as they are: what they run is the ground of a watch and of
//! rollouts. Nothing of them is changed.
//!
//! - [`Adoption::of`]: services as they are found, by what they run. Reads files, and changes none.
//! - [`begin`]: the adoption in a database, from where the agent samples its services.
//! - [`Adopted`]: one that is stored, for who builds on it.

mod found;
mod stored;

pub use found::{AdoptedArm, AdoptedService, Adoption, BaselineFile, LeftOut};
pub use stored::{Adopted, AdoptionError, Listed, begin, end};
