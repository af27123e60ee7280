//! Specs, catalog, obtaining, verifying and identifying of memory allocators.
//!
//! - [`Catalog`] knows families, versions, settings and mitigations; [`Catalog::resolve`] turns a
//!   spec into a [`Resolved`].
//! - [`Obtainer`] gets a resolved allocator and proves by a probe process that it is what the spec
//!   says; [`Obtained::application`] is how to start a program under it.
//! - [`identify`] finds which allocator a running process uses, without attaching to it;
//!   [`prove`] compares that with an obtained allocator.

mod application;
mod c_library;
mod cache;
mod catalog;
mod digest;
mod elf;
mod explain;
mod history;
mod identify;
mod licence;
mod mitigation;
mod obtain;
mod obtained;
pub mod package;
mod probe;
mod probe_process;
mod processors;
mod prove;
mod provenance;
mod reach;
mod resolve;
mod search;
mod tool;
mod verify;

pub use application::Application;
pub use c_library::{DEBIAN_ARCHITECTURE, host_glibc};
pub use cache::{Cache, CacheError};
pub use catalog::{
    Catalog, CatalogError, Combined, Commit, CrateSource, DebianPackage, Environment, Family, Recipe,
    Release, SettingEntry, SettingKind, Variant, VersionCall, VersionRange,
};
pub use elf::{ElfError, Examiner, LibraryFacts, ObjectFacts, check_library, examine_object};
pub use explain::{Advice, Explanation, PARSED_AT_LEAST, Split, explain, memory_split};
pub use heaptrial_model::{Identity, Linkage};
pub use history::{History, HistoryCommit, HistoryError, Repository};
pub use identify::{
    CarriedAllocator, Identifier, IdentifyError, OtherAllocator, PassedVariables, identify, other_allocators,
};
pub use licence::LicenceText;
pub use mitigation::{MITIGATIONS, Mitigation, MitigationState};
pub use obtain::{Attempt, ObtainError, ObtainOptions, Obtainer, SourceError, SourceKind, apt_source};
pub use obtained::{Loader, Obtained};
pub use probe::{PROBE_COMMAND, ProbeAnswer, run_probe};
pub use processors::{AsOn, ProcessorSizing};
pub use prove::{Expected, Mismatch, prove};
pub use provenance::{Build, Origin, Provenance};
pub use reach::{Unreached, is_beyond_reach};
pub use resolve::{ResolveError, Resolved};
pub use search::{Narrowed, SearchLevel, Searched, Tried};
pub use tool::ToolError;
pub use verify::{Verification, VerifyError};
