//! Commands on geographic indexes: sorted sets whose scores are geohashes. The submodules implement
//! the commands of this table.

mod add;
mod geohash;
mod read;
mod search;
mod shape;

use super::table::{commands, on_slab};
use crate::context::Spec;
use session::spec::flag::{DENYOOM, MOVABLE_KEYS, READONLY, WRITE};
use session::spec::{Access, Form, Keys};

/// Table of this family's commands.
pub const TABLE: &[Spec] = commands! {
    in "geo" [geo]:
    "geoadd" -5, WRITE | DENYOOM => Form::Same, Keys::ONE => Access::CHANGE, "3.2.0",
        on_slab!(add::geoadd).by_arguments(),
        "key [NX | XX] [CH] (longitude latitude member)...",
        "Adds members with their positions to a geographic index, or moves them.";
    "geodist" -4, READONLY, Keys::ONE => Access::READ, "3.2.0", on_slab!(read::geodist),
        "key member1 member2 [M | KM | FT | MI]", "Returns the distance between two members.";
    "geohash" -2, READONLY, Keys::ONE => Access::READ, "3.2.0", on_slab!(read::geohash).by_arguments(),
        "key [member]...", "Returns the positions of members as geohash strings.";
    "geopos" -2, READONLY, Keys::ONE => Access::READ, "3.2.0", on_slab!(read::geopos).by_arguments(),
        "key [member]...", "Returns the longitudes and latitudes of members.";
    "georadius" -6, WRITE | DENYOOM | MOVABLE_KEYS => Form::Stored,
        Keys::FirstAndStored(5) => Access::READ.then(Access::OVERWRITE), "3.2.0",
        on_slab!(|ctx, args| search::georadius(ctx, args, false, true)).estimated(search::work),
        "key longitude latitude radius (M | KM | FT | MI) [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] \
         [ASC | DESC] [STORE key | STOREDIST key]",
        "Returns or stores the members within a distance of a position.";
    "georadiusbymember" -5, WRITE | DENYOOM | MOVABLE_KEYS => Form::Stored,
        Keys::FirstAndStored(4) => Access::READ.then(Access::OVERWRITE), "3.2.0",
        on_slab!(|ctx, args| search::georadius(ctx, args, true, true)).estimated(search::work),
        "key member radius (M | KM | FT | MI) [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] \
         [ASC | DESC] [STORE key | STOREDIST key]",
        "Returns or stores the members within a distance of a member.";
    "georadiusbymember_ro" -5, READONLY, Keys::ONE => Access::READ, "3.2.10",
        on_slab!(|ctx, args| search::georadius(ctx, args, true, false)).estimated(search::work),
        "key member radius (M | KM | FT | MI) [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]",
        "Returns the members within a distance of a member.";
    "georadius_ro" -6, READONLY, Keys::ONE => Access::READ, "3.2.10",
        on_slab!(|ctx, args| search::georadius(ctx, args, false, false)).estimated(search::work),
        "key longitude latitude radius (M | KM | FT | MI) [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] \
         [ASC | DESC]",
        "Returns the members within a distance of a position.";
    "geosearch" -7, READONLY, Keys::ONE => Access::READ, "6.2.0",
        on_slab!(search::geosearch).estimated(search::work),
        "key (FROMMEMBER member | FROMLONLAT longitude latitude) ((BYRADIUS radius (M | KM | FT | MI)) | \
         (BYBOX width height (M | KM | FT | MI))) [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] \
         [WITHHASH]",
        "Returns the members within a circle or a rectangle.";
    "geosearchstore" -8, WRITE | DENYOOM => Form::StateOf(1),
        Keys::Range(1, 2, 1) => Access::OVERWRITE.then(Access::READ), "6.2.0",
        on_slab!(search::geosearchstore).estimated(search::work),
        "destination source (FROMMEMBER member | FROMLONLAT longitude latitude) ((BYRADIUS radius \
         (M | KM | FT | MI)) | (BYBOX width height (M | KM | FT | MI))) [ASC | DESC] [COUNT count [ANY]] \
         [STOREDIST]",
        "Stores the members within a circle or a rectangle under another key.";
};
