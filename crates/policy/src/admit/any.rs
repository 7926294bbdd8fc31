//! Admission filters chosen by name.
//!
//! A new filter is a file next to this one and a line in `admission_filters!` in the folder's
//! module, which declares the module. The line gives the filter its name in [`AdmitSpec`], its
//! place in [`AnyAdmission`], its row in [`FILTERS`], and its run through the conformance suite.

use crate::admit::{self, Admission, MissedKey, admission_filters};
use crate::knobs::{Knob, Knobs, SpecError, read_knobs, write_knobs};
use crate::names::is_same;
use crate::{Admit, Facts, Slot};
use core::fmt;
use core::str::FromStr;

/// Description of one filter; a row of the table in the docs.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The canonical name.
    pub name: &'static str,
    /// Other accepted names.
    pub aliases: &'static [&'static str],
    /// Whether the host must report hits and evictions to it.
    pub listens: bool,
    /// Knobs of the filter.
    pub knobs: &'static [Knob],
}

impl About {
    /// Returns the canonical name, then the aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        core::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

/// Returns the canonical names and aliases of all filters.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILTERS.iter().flat_map(About::names)
}

/// Finds a filter by its name or an alias; case, `-` and `_` are ignored.
pub fn find(name: &str) -> Result<&'static About, SpecError> {
    let is_named = |about: &&About| about.names().any(|own| is_same(own, name));
    let found = FILTERS.iter().find(is_named);
    found.ok_or_else(|| SpecError::unknown_name("admission filter", name, names()))
}

macro_rules! define_any {
    ($([mod $module:ident] $name:ident = $filter:ty,)+) => {
        /// Descriptions of all filters, in the order of the list.
        pub const FILTERS: &[About] = &[
            $(About {
                name: <$filter as Admission>::NAME,
                aliases: <$filter as Admission>::ALIASES,
                listens: <$filter as Admission>::LISTENS,
                knobs: <<$filter as Admission>::Config as Knobs>::KNOBS,
            },)+
        ];

        /// A filter and its knobs, as given by a user: `always`, `size:4096`, `probability:p=0.1`.
        /// Knobs follow the name after colons, in their order or by name.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "the variants are the filters, whose files describe them")]
        pub enum AdmitSpec {
            $($name(<$filter as Admission>::Config),)+
        }

        impl AdmitSpec {
            /// Returns the filter's canonical name, without its knobs.
            pub fn name(&self) -> &'static str {
                match self {
                    $(AdmitSpec::$name(_) => <$filter as Admission>::NAME,)+
                }
            }
        }

        impl FromStr for AdmitSpec {
            type Err = SpecError;

            fn from_str(text: &str) -> Result<Self, SpecError> {
                let mut parts = text.split(':');
                let name = find(parts.next().unwrap_or_default())?.name;
                $(if name == <$filter as Admission>::NAME {
                    return read_knobs(<$filter as Admission>::NAME, parts).map(AdmitSpec::$name);
                })+
                unreachable!("every filter found is in the list")
            }
        }

        impl fmt::Display for AdmitSpec {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())?;
                match self {
                    $(AdmitSpec::$name(config) => write_knobs(f, config),)+
                }
            }
        }

        /// A filter chosen at run time.
        #[derive(Clone, Debug)]
        #[expect(missing_docs, reason = "the variants are the filters, whose files describe them")]
        pub enum AnyAdmission {
            $($name($filter),)+
        }

        impl AnyAdmission {
            /// Whether [`Admission::hit`] and [`Admission::evicted`] do anything. The host calls
            /// this once, not at each hit.
            pub fn listens(&self) -> bool {
                match self {
                    $(AnyAdmission::$name(_) => <$filter as Admission>::LISTENS,)+
                }
            }

            /// Returns the filter's canonical name.
            pub fn name(&self) -> &'static str {
                match self {
                    $(AnyAdmission::$name(_) => <$filter as Admission>::NAME,)+
                }
            }
        }

        impl Admission for AnyAdmission {
            type Config = AdmitSpec;
            const NAME: &'static str = "any";
            const LISTENS: bool = true;

            fn new(capacity: u64, config: &AdmitSpec, seed: u64) -> Self {
                match config {
                    $(AdmitSpec::$name(config) => {
                        AnyAdmission::$name(<$filter as Admission>::new(capacity, config, seed))
                    })+
                }
            }

            fn resize(&mut self, capacity: u64) {
                match self {
                    $(AnyAdmission::$name(filter) => filter.resize(capacity),)+
                }
            }

            #[inline]
            fn hit(&mut self, facts: &impl Facts, slot: Slot) {
                match self {
                    $(AnyAdmission::$name(filter) => filter.hit(facts, slot),)+
                }
            }

            #[inline]
            fn evicted(&mut self, facts: &impl Facts, slot: Slot) {
                match self {
                    $(AnyAdmission::$name(filter) => filter.evicted(facts, slot),)+
                }
            }

            #[inline]
            fn admit(&mut self, facts: &impl Facts, missed: MissedKey) -> Admit {
                match self {
                    $(AnyAdmission::$name(filter) => filter.admit(facts, missed),)+
                }
            }

            fn heap_bytes(&self) -> usize {
                match self {
                    $(AnyAdmission::$name(filter) => filter.heap_bytes(),)+
                }
            }

            fn check(&self) {
                match self {
                    $(AnyAdmission::$name(filter) => filter.check(),)+
                }
            }
        }
    };
}
admission_filters!(define_any);

impl Default for AdmitSpec {
    /// Returns the filter that admits everything.
    fn default() -> Self {
        AdmitSpec::Always(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> AdmitSpec {
        text.parse().expect("it is well formed")
    }

    fn message(text: &str) -> String {
        text.parse::<AdmitSpec>()
            .expect_err("the text is wrong")
            .to_string()
    }

    #[test]
    fn names_lead_back_to_their_filters() {
        for about in FILTERS {
            let spec = spec(about.name);
            assert_eq!(spec.to_string(), about.name);
            let filter = AnyAdmission::new(100, &spec, 1);
            assert_eq!(filter.name(), about.name);
            assert_eq!(filter.listens(), about.listens);
        }
    }

    #[test]
    fn knobs_are_given_in_order_or_by_name() {
        assert_eq!(spec("size:4096"), spec("size:max=4096"));
        assert_eq!(spec("probability:0.5").to_string(), "probability:p=0.5");
        assert_eq!(
            message("probability:2"),
            "probability: p=2: expected 0.0 to 1.0"
        );
        assert_eq!(
            message("probability:nan"),
            "probability: p=nan: expected 0.0 to 1.0"
        );
        assert_eq!(
            message("always:1"),
            "always has no knob for '1'; expected no knobs after the name"
        );
        assert_eq!(
            message("blom"),
            "no admission filter is called 'blom': did you mean 'bloom'? docs/reference/policies.md lists all names"
        );
        assert_eq!(spec("None").name(), "always");
    }
}
