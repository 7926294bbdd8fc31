//! Redundancy schemes: whole copies, or chunks, some of which may be missing.

use edge::placement::Placement;
use std::fmt;
use std::str::FromStr;

/// Maximum number of chunks or copies of an object.
pub const PARTS_MAX: usize = 16;
/// Number of hits after which an object gets a second copy under [`Scheme::Popular`].
pub const POPULAR_AT: u8 = 3;

/// Form in which the parts of an object are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// A number of whole copies, on consecutive servers of the ring.
    Replicas(usize),
    /// One copy, and a second copy after [`POPULAR_AT`] hits.
    Popular,
    /// Large objects as K data and P parity chunks, small objects as P + 1 copies.
    Coded {
        /// Number of data chunks, K.
        data: usize,
        /// Number of parity chunks, P.
        parity: usize,
        /// Placement of parity: on servers chosen so that all are written to evenly, or on the next
        /// servers of the ring.
        placement: Placement,
    },
}

/// Error for a text that names no scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadScheme(String);

impl fmt::Display for BadScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadScheme {}

impl Scheme {
    /// Schemes that the thesis compares.
    pub const COMPARED: [Scheme; 8] = [
        Scheme::Replicas(1),
        Scheme::Replicas(2),
        Scheme::Replicas(3),
        Scheme::Popular,
        Scheme::coded(3, 1, Placement::Ring),
        Scheme::coded(3, 1, Placement::Greedy),
        Scheme::coded(3, 2, Placement::Greedy),
        Scheme::coded(3, 3, Placement::Greedy),
    ];

    pub(super) const fn coded(data: usize, parity: usize, placement: Placement) -> Scheme {
        Scheme::Coded {
            data,
            parity,
            placement,
        }
    }

    /// Whether parity is placed by max-flow.
    pub(super) fn is_flow(self) -> bool {
        matches!(
            self,
            Scheme::Coded {
                placement: Placement::MaxFlow,
                ..
            }
        )
    }

    /// Maximum number of servers that an object is spread over.
    pub fn parts(self) -> usize {
        match self {
            Scheme::Replicas(count) => count,
            Scheme::Popular => 2,
            Scheme::Coded { data, parity, .. } => data + parity,
        }
    }

    /// Number of copies of an object that is not coded.
    pub(super) fn copies(self) -> usize {
        match self {
            Scheme::Replicas(count) => count,
            Scheme::Popular => 2,
            Scheme::Coded { parity, .. } => parity + 1,
        }
    }

    /// Number of chunks that restore an object and number of all its chunks; `None` without a code.
    pub(super) fn code(self) -> Option<(usize, usize)> {
        match self {
            Scheme::Coded { data, parity, .. } => Some((data, data + parity)),
            _ => None,
        }
    }

    /// Placement of parity. Without a code it has no effect.
    pub(super) fn placement(self) -> Placement {
        match self {
            Scheme::Coded { placement, .. } => placement,
            _ => Placement::Ring,
        }
    }

    /// Whether parity is placed by load.
    pub(super) fn is_balanced(self) -> bool {
        self.placement() != Placement::Ring
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Scheme::Replicas(1) => f.write_str("none"),
            Scheme::Replicas(count) => write!(f, "replicas:{count}"),
            Scheme::Popular => f.write_str("popular"),
            Scheme::Coded {
                data,
                parity,
                placement,
            } => {
                let name = match placement {
                    Placement::Greedy => "c2dn",
                    Placement::MaxFlow => "c2dn-flow",
                    Placement::Ring => "norebal",
                };
                write!(f, "{name}:{data}:{parity}")
            }
        }
    }
}

impl FromStr for Scheme {
    type Err = BadScheme;

    /// ```
    /// use sim::cluster::Scheme;
    /// assert_eq!("c2dn:3:1".parse::<Scheme>().unwrap().parts(), 4);
    /// assert_eq!("replicas:2".parse::<Scheme>().unwrap().parts(), 2);
    /// assert!("c2dn:0:1".parse::<Scheme>().is_err());
    /// assert!("c2dn:3:0".parse::<Scheme>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Self, BadScheme> {
        let bad = |why: &str| BadScheme(format!("'{text}' is not a scheme: {why}"));
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let numbers: Result<Vec<usize>, _> = parts.map(str::parse).collect();
        let numbers = numbers.map_err(|_| bad("expected numbers after the name"))?;
        let scheme = match (name, numbers.as_slice()) {
            ("none", []) => Scheme::Replicas(1),
            ("replicas", [0]) => return Err(bad("an object has at least one copy")),
            ("replicas", &[count]) => Scheme::Replicas(count),
            ("popular", []) => Scheme::Popular,
            ("c2dn" | "c2dn-flow" | "norebal", &[data, parity]) => {
                if data == 0 {
                    return Err(bad("K, the number of data chunks, is at least 1"));
                }
                if parity == 0 {
                    return Err(bad(
                        "P, the number of parity chunks, is at least 1: without parity nothing is \
                         protected, and 'none' keeps whole objects",
                    ));
                }
                Scheme::Coded {
                    data,
                    parity,
                    placement: match name {
                        "c2dn" => Placement::Greedy,
                        "c2dn-flow" => Placement::MaxFlow,
                        _ => Placement::Ring,
                    },
                }
            }
            _ => {
                return Err(bad(
                    "expected none, replicas:COUNT, popular, c2dn:K:P, c2dn-flow:K:P or \
                     norebal:K:P",
                ));
            }
        };
        // Checked one by one first, because the sum of K and P may overflow.
        let is_small = numbers.iter().all(|number| *number <= PARTS_MAX);
        if !is_small || scheme.parts() > PARTS_MAX {
            return Err(bad(&format!(
                "an object has at most {PARTS_MAX} chunks or copies"
            )));
        }
        Ok(scheme)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_scheme_is_parsed_back() {
        let flow = Scheme::coded(3, 1, Placement::MaxFlow);
        for scheme in Scheme::COMPARED.into_iter().chain([flow]) {
            assert_eq!(scheme.to_string().parse(), Ok(scheme));
        }
    }

    #[test]
    fn invalid_schemes_are_refused() {
        for text in [
            "",
            "c2dn",
            "c2dn:3",
            "c2dn:0:1",
            "c2dn:3:0",
            "c2dn:3:-1",
            "norebal:9:9",
            "c2dn:18446744073709551615:1",
            "replicas",
            "replicas:0",
            "replicas:17",
            "raid",
            "none:1",
        ] {
            assert!(text.parse::<Scheme>().is_err(), "{text}");
        }
    }
}
