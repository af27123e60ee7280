//! What is said of services that do not count for their arm: of an import nobody knows what ran, of a trial it is proved.

use crate::document::Kind;

/// Words for one kind of field data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    /// Services that do not count as treated.
    pub(crate) strangers: &'static str,
    /// What is told of one.
    pub(crate) one: &'static str,
    /// What is told of several.
    pub(crate) several: &'static str,
    /// The paragraph about them.
    pub(crate) paragraph: &'static str,
    /// The table of figures with and without them.
    pub(crate) with_and_without: &'static str,
    /// Figures over all services of an arm.
    pub(crate) as_assigned: &'static str,
    /// Figures without them.
    pub(crate) as_treated: &'static str,
    /// Of an arm without any, whose control has some.
    pub(crate) of_control: &'static str,
    /// Whether a service counts.
    pub(crate) belongs: &'static str,
}

/// Of lists that operators wrote.
const LISTED: Words = Words {
    strangers: "strangers",
    one: "is a stranger",
    several: "are strangers",
    paragraph: "Wrong lists",
    with_and_without: "With and without strangers",
    as_assigned: "all as listed",
    as_treated: "those that belong",
    of_control: "all, the control without its strangers",
    belongs: "Belongs to it",
};

/// Of an assignment with a ledger.
const ASSIGNED: Words = Words {
    strangers: "contaminated services",
    one: "is contaminated",
    several: "are contaminated",
    paragraph: "Contaminated",
    with_and_without: "With and without contaminated services",
    as_assigned: "all as assigned",
    as_treated: "those that ran its treatment",
    of_control: "all, the control without contaminated services",
    belongs: "Ran its treatment",
};

/// The words for a kind.
pub(crate) fn words(kind: Kind) -> Words {
    if kind.is_import() { LISTED } else { ASSIGNED }
}
