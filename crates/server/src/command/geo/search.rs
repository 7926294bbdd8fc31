//! Members in an area: GEOSEARCH, GEOSEARCHSTORE, and the older GEORADIUS and GEORADIUSBYMEMBER.

use super::add::parse_position;
use super::geohash::Position;
use super::read::{metres_of, position_of, write_distance, write_position};
use super::shape::{Extent, Shape};
use crate::command::sorted_set::access::read;
use crate::command::sorted_set::result::{self, Entries};
use crate::context::{Ctx, Probe};
use engine::refusal::{Answer, Refusal};
use std::ops::{Bound, Range};
use store::{Interval, Scene, SortedSet};
use wire::Args;
use wire::number::{parse_f64, parse_i64};

/// Centre of a search before the member is looked up.
#[derive(Clone, Copy)]
enum Centre<'a> {
    Position(Position),
    Member(&'a [u8]),
}

/// Order of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Any,
    Nearest,
    Farthest,
}

/// Destination of a search that stores its result.
#[derive(Clone, Copy)]
struct Destination<'a> {
    key: &'a [u8],
    /// Whether distances are stored as scores instead of geohashes.
    is_distance: bool,
}

/// Arguments of a search.
struct Request<'a> {
    centre: Option<Centre<'a>>,
    extent: Option<Extent>,
    /// Number of metres in the unit of the returned distances.
    unit: f64,
    order: Order,
    /// Maximum number of members; 0 means all.
    count: usize,
    /// Whether any members may be returned instead of the nearest ones.
    is_any: bool,
    with_position: bool,
    with_distance: bool,
    with_geohash: bool,
    destination: Option<Destination<'a>>,
}

/// A member in the area.
struct Found {
    member: Vec<u8>,
    /// Distance from the centre in metres.
    distance: f64,
    score: f64,
}

/// Kind of command, which determines its options.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    /// GEORADIUS and GEORADIUSBYMEMBER; true if they may store.
    Radius(bool),
    Search,
    SearchStore,
}

const NEGATIVE_RADIUS: Refusal = Refusal::Message("ERR radius cannot be negative");
const NOT_DECODED: Refusal = Refusal::Message("ERR could not decode requested zset member");

/// Returns the scores of a range of geohashes.
fn scores_of(range: &Range<u64>) -> Interval<'static> {
    let (start, end) = (range.start as f64, range.end as f64);
    Interval::Scores(Bound::Included(start), Bound::Excluded(end))
}

fn parse_radius(text: &[u8], unit: &[u8]) -> Result<(f64, f64), Refusal> {
    let radius = parse_f64(text).ok_or(Refusal::Message("ERR need numeric radius"))?;
    if radius < 0.0 {
        return Err(NEGATIVE_RADIUS);
    }
    Ok((radius, metres_of(unit)?))
}

impl<'a> Request<'a> {
    fn new(centre: Option<Centre<'a>>, extent: Option<Extent>, unit: f64) -> Request<'a> {
        Request {
            centre,
            extent,
            unit,
            order: Order::Any,
            count: 0,
            is_any: false,
            with_position: false,
            with_distance: false,
            with_geohash: false,
            destination: None,
        }
    }

    /// Parses the options from argument `at` on. Returns false if an error was written.
    fn parse(
        &mut self,
        ctx: &mut Ctx<'_, '_>,
        args: Args<'a>,
        mut at: usize,
        command: Command,
    ) -> Result<bool, Refusal> {
        let is_search = matches!(command, Command::Search | Command::SearchStore);
        while let Some(word) = args.get(at) {
            let rest = args.len() - at - 1;
            at += 1;
            match &word.to_ascii_lowercase()[..] {
                b"withdist" => self.with_distance = true,
                b"withhash" => self.with_geohash = true,
                b"withcoord" => self.with_position = true,
                b"any" => self.is_any = true,
                b"asc" => self.order = Order::Nearest,
                b"desc" => self.order = Order::Farthest,
                b"count" if rest >= 1 => {
                    let count = parse_i64(&args[at]).ok_or(Refusal::NotInteger)?;
                    if count <= 0 {
                        return Err(Refusal::Message("ERR COUNT must be > 0"));
                    }
                    self.count = count as usize;
                    at += 1;
                }
                name @ (b"store" | b"storedist")
                    if command == Command::Radius(true) && rest >= 1 =>
                {
                    self.destination = Some(Destination {
                        key: args.get(at).ok_or(Refusal::Syntax)?,
                        is_distance: name == b"storedist",
                    });
                    at += 1;
                }
                b"storedist" if command == Command::SearchStore => {
                    if let Some(destination) = &mut self.destination {
                        destination.is_distance = true;
                    }
                }
                b"frommember" if is_search && self.centre.is_none() && rest >= 1 => {
                    let member = args.get(at).ok_or(Refusal::Syntax)?;
                    self.centre = Some(Centre::Member(member));
                    at += 1;
                }
                b"fromlonlat" if is_search && self.centre.is_none() && rest >= 2 => {
                    let Some(position) = parse_position(ctx, &args[at], &args[at + 1])? else {
                        return Ok(false);
                    };
                    self.centre = Some(Centre::Position(position));
                    at += 2;
                }
                b"byradius" if is_search && self.extent.is_none() && rest >= 2 => {
                    let (radius, unit) = parse_radius(&args[at], &args[at + 1])?;
                    self.extent = Some(Extent::Circle(radius * unit));
                    self.unit = unit;
                    at += 2;
                }
                b"bybox" if is_search && self.extent.is_none() && rest >= 3 => {
                    self.parse_box(args, at)?;
                    at += 3;
                }
                _ => return Err(Refusal::Syntax),
            }
        }
        Ok(true)
    }

    fn parse_box(&mut self, args: Args<'a>, at: usize) -> Result<(), Refusal> {
        let width = parse_f64(&args[at]).ok_or(Refusal::Message("ERR need numeric width"))?;
        let height = parse_f64(&args[at + 1]).ok_or(Refusal::Message("ERR need numeric height"))?;
        if width < 0.0 || height < 0.0 {
            return Err(Refusal::Message("ERR height or width cannot be negative"));
        }
        let unit = metres_of(&args[at + 2])?;
        self.extent = Some(Extent::Rectangle(width * unit, height * unit));
        self.unit = unit;
        Ok(())
    }

    /// Checks that the options are compatible. Writes the error and returns false if they are not.
    fn check(&mut self, ctx: &mut Ctx<'_, '_>, name: &[u8], command: Command) -> bool {
        let has_details = self.with_distance || self.with_geohash || self.with_position;
        let name = String::from_utf8_lossy(name).into_owned();
        if self.destination.is_some() && has_details {
            let which = match command {
                Command::SearchStore => "GEOSEARCHSTORE",
                _ => "STORE option in GEORADIUS",
            };
            ctx.reply.error_fmt(format_args!(
                "ERR {which} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            ));
            return false;
        }
        if self.centre.is_none() {
            ctx.reply.error_fmt(format_args!(
                "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {name}"
            ));
            return false;
        }
        if self.extent.is_none() {
            ctx.reply.error_fmt(format_args!(
                "ERR exactly one of BYRADIUS and BYBOX can be specified for {name}"
            ));
            return false;
        }
        if self.is_any && self.count == 0 {
            ctx.reply
                .error("ERR the ANY argument requires COUNT argument");
            return false;
        }
        if self.count > 0 && self.order == Order::Any && !self.is_any {
            self.order = Order::Nearest;
        }
        true
    }

    /// Returns the members in the area, in the requested order.
    fn search(&self, set: &SortedSet, scene: &Scene<'_>) -> Result<Vec<Found>, Refusal> {
        let centre = match self.centre {
            Some(Centre::Position(position)) => position,
            Some(Centre::Member(member)) => {
                position_of(set.score(member, scene).ok_or(NOT_DECODED)?)
            }
            None => return Err(Refusal::Syntax),
        };
        let extent = self.extent.ok_or(Refusal::Syntax)?;
        let shape = Shape { centre, extent };
        let most = if self.is_any { self.count } else { usize::MAX };
        let mut found = Vec::new();
        for range in shape.ranges() {
            let scores = scores_of(&range);
            set.each(set.ranks(&scores, scene), false, scene, |member, score| {
                if found.len() < most
                    && let Some(distance) = shape.distance(&position_of(score))
                {
                    found.push(Found {
                        member: member.to_vec(),
                        distance,
                        score,
                    });
                }
            });
            if found.len() >= most {
                break;
            }
        }
        match self.order {
            Order::Any => {}
            Order::Nearest => found.sort_by(|a, b| a.distance.total_cmp(&b.distance)),
            Order::Farthest => found.sort_by(|a, b| b.distance.total_cmp(&a.distance)),
        }
        if self.count > 0 {
            found.truncate(self.count);
        }
        Ok(found)
    }

    /// Searches the index under `source` and replies with the result or stores it.
    fn run(&self, ctx: &mut Ctx<'_, '_>, source: &[u8], event: &'static str) -> Answer {
        let key = ctx.key(source);
        let found = read(ctx, &key, |set, scene| self.search(set, scene))?;
        let found = found.transpose()?.unwrap_or_default();
        if let Some(destination) = self.destination {
            let mut entries = Entries::with_capacity(found.len());
            for one in found {
                let score = match destination.is_distance {
                    true => one.distance / self.unit,
                    false => one.score,
                };
                entries.push((one.member, score));
            }
            result::store(ctx, destination.key, &entries, event);
            return Ok(());
        }
        self.reply(ctx, &found);
        Ok(())
    }

    fn reply(&self, ctx: &mut Ctx<'_, '_>, found: &[Found]) {
        let details = [self.with_distance, self.with_geohash, self.with_position];
        let details = details.iter().filter(|detail| **detail).count();
        let reply = &mut ctx.reply;
        reply.array(found.len());
        for one in found {
            if details > 0 {
                reply.array(1 + details);
            }
            reply.bulk(&one.member);
            if self.with_distance {
                write_distance(reply, one.distance / self.unit);
            }
            if self.with_geohash {
                reply.integer(one.score as i64);
            }
            if self.with_position {
                write_position(reply, &position_of(one.score));
            }
        }
    }
}

/// Estimates the work of GEOSEARCH, GEOSEARCHSTORE and GEORADIUS with its variants: the members in
/// the cells that the area touches. The index is the last key that a search reads.
pub fn work(probe: &mut Probe<'_, '_>, args: Args<'_>) -> u64 {
    let command = probe.name;
    let source = &args[if command == "geosearchstore" { 2 } else { 1 }];
    let key = probe.key(source);
    let threshold = probe.threshold as usize;
    let count = probe.view.peek_large_sorted_set(&key, |set, scene| {
        let len = set.len(scene);
        let shape = match len > threshold {
            true => shape_of(command, args, |member| set.score(member, scene)),
            false => None,
        };
        // The command refuses a shape that is not valid, unless it finds another one.
        shape.map_or(len, |shape| {
            let ranks = |range: &Range<u64>| set.ranks(&scores_of(range), scene).len();
            shape.ranges().iter().map(ranks).sum()
        })
    });
    count.unwrap_or(0) as u64
}

/// Returns the area that a command searches. `score_of` returns the score of a member.
fn shape_of(
    command: &str,
    args: Args<'_>,
    score_of: impl Fn(&[u8]) -> Option<f64>,
) -> Option<Shape> {
    let at = |word: &str| (2..args.len()).find(|&at| args.is(at, word));
    let number = |at: usize| args.get(at).and_then(parse_f64);
    let position = |at: usize| {
        let (longitude, latitude) = (number(at)?, number(at + 1)?);
        let position = Position {
            longitude,
            latitude,
        };
        position.is_valid().then_some(position)
    };
    let member = |at: usize| args.get(at).and_then(&score_of).map(position_of);
    let (centre, radius) = if command.starts_with("georadiusbymember") {
        (member(2)?, Some(3))
    } else if command.starts_with("georadius") {
        (position(2)?, Some(4))
    } else {
        let centre = match (at("frommember"), at("fromlonlat")) {
            (Some(at), None) => member(at + 1)?,
            (None, Some(at)) => position(at + 1)?,
            _ => return None,
        };
        (centre, at("byradius").map(|at| at + 1))
    };
    let unit = |at: usize| metres_of(args.get(at)?).ok();
    let extent = match (radius, at("bybox")) {
        (Some(at), _) => Extent::Circle(number(at)? * unit(at + 1)?),
        (None, Some(at)) => {
            let unit = unit(at + 3)?;
            Extent::Rectangle(number(at + 1)? * unit, number(at + 2)? * unit)
        }
        (None, None) => return None,
    };
    Some(Shape { centre, extent })
}

/// `GEORADIUS key longitude latitude radius unit [option …]`, or with a member instead of the
/// position
pub fn georadius(
    ctx: &mut Ctx<'_, '_>,
    args: Args<'_>,
    is_by_member: bool,
    may_store: bool,
) -> Answer {
    let (centre, at) = if is_by_member {
        (Centre::Member(&args[2]), 3)
    } else {
        match parse_position(ctx, &args[2], &args[3])? {
            Some(position) => (Centre::Position(position), 4),
            None => return Ok(()),
        }
    };
    let (radius, unit) = parse_radius(&args[at], &args[at + 1])?;
    let extent = Extent::Circle(radius * unit);
    let mut request = Request::new(Some(centre), Some(extent), unit);
    let command = Command::Radius(may_store);
    if !request.parse(ctx, args, at + 2, command)? || !request.check(ctx, &args[0], command) {
        return Ok(());
    }
    request.run(ctx, &args[1], "georadiusstore")
}

/// `GEOSEARCH key FROMMEMBER member | FROMLONLAT longitude latitude BYRADIUS radius unit | BYBOX
/// width height unit [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]`
pub fn geosearch(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let mut request = Request::new(None, None, 1.0);
    let command = Command::Search;
    if !request.parse(ctx, args, 2, command)? || !request.check(ctx, &args[0], command) {
        return Ok(());
    }
    request.run(ctx, &args[1], "geosearch")
}

/// `GEOSEARCHSTORE destination source …`, with the options of GEOSEARCH except those that begin
/// with WITH, and STOREDIST
pub fn geosearchstore(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let mut request = Request::new(None, None, 1.0);
    request.destination = Some(Destination {
        key: &args[1],
        is_distance: false,
    });
    let command = Command::SearchStore;
    if !request.parse(ctx, args, 3, command)? || !request.check(ctx, &args[0], command) {
        return Ok(());
    }
    request.run(ctx, &args[2], "geosearchstore")
}
