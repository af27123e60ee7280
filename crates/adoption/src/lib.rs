//! Services that somebody gave an allocator by hand, taken over as they are: what they run is the ground of a watch and of
//! rollouts. Nothing of them is changed.
//!
//! - [`Adoption::of`]: services as they are found, by what they run. Reads files, and changes none.
//! - [`examined`]: what one service runs, if its next start will run the same.
//! - [`begin`]: the adoption in a database, from where the agent samples its services.
//! - [`Adopted`]: one that is stored, for who builds on it.

mod examined;
mod found;
mod stored;

pub use examined::{LeftOut, examined};
pub use found::{AdoptedArm, AdoptedService, Adoption, BaselineFile};
pub use stored::{Adopted, AdoptionError, Listed, begin, check_name, end, taken};
