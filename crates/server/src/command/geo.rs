//! Commands on geographic indexes: sorted sets whose scores are geohashes. The submodules implement
//! the commands of this table.

mod add;
mod geohash;
mod read;
mod search;
mod shape;

use super::table::{commands, on_slab};
use crate::context::Spec;
use session::spec::Keys;
use session::spec::flag::{DENYOOM, MOVABLE_KEYS, READONLY, WRITE};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "geo":
    "geoadd" -5, WRITE | DENYOOM, Keys::Range(1, 1, 1), "3.2.0", on_slab!(add::geoadd).by_arguments(),
        "Adds members with their positions to a geographic index, or moves them.";
    "geodist" -4, READONLY, Keys::Range(1, 1, 1), "3.2.0", on_slab!(read::geodist),
        "Returns the distance between two members.";
    "geohash" -2, READONLY, Keys::Range(1, 1, 1), "3.2.0", on_slab!(read::geohash).by_arguments(),
        "Returns the positions of members as geohash strings.";
    "geopos" -2, READONLY, Keys::Range(1, 1, 1), "3.2.0", on_slab!(read::geopos).by_arguments(),
        "Returns the longitudes and latitudes of members.";
    "georadius" -6, WRITE | DENYOOM | MOVABLE_KEYS, Keys::FirstAndStored(5), "3.2.0",
        on_slab!(|ctx, args| search::georadius(ctx, args, false, true)).estimated(search::work),
        "Returns or stores the members within a distance of a position.";
    "georadiusbymember" -5, WRITE | DENYOOM | MOVABLE_KEYS, Keys::FirstAndStored(4), "3.2.0",
        on_slab!(|ctx, args| search::georadius(ctx, args, true, true)).estimated(search::work),
        "Returns or stores the members within a distance of a member.";
    "georadiusbymember_ro" -5, READONLY, Keys::Range(1, 1, 1), "3.2.10",
        on_slab!(|ctx, args| search::georadius(ctx, args, true, false)).estimated(search::work),
        "Returns the members within a distance of a member.";
    "georadius_ro" -6, READONLY, Keys::Range(1, 1, 1), "3.2.10",
        on_slab!(|ctx, args| search::georadius(ctx, args, false, false)).estimated(search::work),
        "Returns the members within a distance of a position.";
    "geosearch" -7, READONLY, Keys::Range(1, 1, 1), "6.2.0", on_slab!(search::geosearch).estimated(search::work),
        "Returns the members within a circle or a rectangle.";
    "geosearchstore" -8, WRITE | DENYOOM, Keys::Range(1, 2, 1), "6.2.0", on_slab!(search::geosearchstore).estimated(search::work),
        "Stores the members within a circle or a rectangle under another key.";
};
