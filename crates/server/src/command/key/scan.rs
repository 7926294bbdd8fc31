//! Commands that list keys: KEYS, SCAN, RANDOMKEY, DBSIZE.

use super::generic::kind_name;
use crate::command::scanning::{self, COUNT_DEFAULT, selective};
use crate::context::Ctx;
use crate::routing::Routes;
use crate::state::Server;
use engine::Strings;
use engine::refusal::{Answer, Refusal};
use settings::random::Random;
use std::sync::Arc;
use store::{Kind, View};
use wire::slot::slot;
use wire::{Args, Reply, glob};

/// Number of keys that one step of KEYS examines.
const KEYS_STEP: usize = 1024;
/// Maximum COUNT of SCAN that is applied, so that a call is short.
const SCAN_COUNT_MAX: usize = 4096;
/// Number of keys among which RANDOMKEY finds one that clients see.
const RANDOM_TRIES: usize = 100;

/// The keys that clients see. In a cluster, a node may store keys of slots that arrive, or that
/// have just left.
pub struct Visible(Option<Arc<Routes>>);

impl Visible {
    /// Returns the keys that clients of a server see.
    pub fn of(server: &Server) -> Visible {
        let cluster = &server.cluster;
        Visible(cluster.is_routed().then(|| cluster.routes()))
    }

    /// Whether clients see a key.
    pub fn has(&self, name: &[u8]) -> bool {
        let routes = self.0.as_ref();
        routes.is_none_or(|routes| routes.is_own(slot(name)))
    }
}

/// Lists the visible names that match a pattern among some keys from a position on. Returns the
/// next position, 0 at the end, and the number of names. All shards are locked.
pub fn list_names(
    view: &mut View<'_>,
    (db, cursor): (u8, u64),
    visible: &Visible,
    pattern: &[u8],
    list: &mut Reply<'_>,
) -> (u64, usize) {
    let pattern = selective(pattern);
    let mut count = 0;
    let next = view.scan(db, cursor, KEYS_STEP, &mut |name, _| {
        if visible.has(name) && pattern.is_none_or(|pattern| glob::matches(pattern, name, false)) {
            list.bulk(name);
            count += 1;
        }
    });
    (next, count)
}

/// `KEYS pattern`
pub fn keys(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let mut found = ctx.reply.part();
    let mut count = 0;
    let mut list = Reply::new(&mut found, ctx.reply.protocol());
    let (mut cursor, visible) = (0, Visible::of(ctx.server));
    loop {
        let at = (ctx.session.db, cursor);
        let (next, more) = list_names(&mut ctx.view, at, &visible, &args[1], &mut list);
        cursor = next;
        count += more;
        if cursor == 0 {
            break;
        }
    }
    ctx.reply.array(count);
    ctx.reply.append(&found);
    Ok(())
}

/// Options of SCAN.
struct Options<'a> {
    pattern: Option<&'a [u8]>,
    count: usize,
    kind: Option<&'static str>,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>) -> Result<Options<'a>, Refusal> {
        let mut options = Options {
            pattern: None,
            count: COUNT_DEFAULT,
            kind: None,
        };
        let mut index = 0;
        while let Some(option) = args.get(index) {
            let operand = args.get(index + 1);
            match operand {
                Some(number) if option.eq_ignore_ascii_case(b"COUNT") => {
                    options.count = scanning::count(number)?.min(SCAN_COUNT_MAX);
                }
                Some(pattern) if option.eq_ignore_ascii_case(b"MATCH") => {
                    options.pattern = selective(pattern);
                }
                Some(name) if option.eq_ignore_ascii_case(b"TYPE") => {
                    // No key has an unknown type, so that nothing is found, as in Redis.
                    options.kind = Some(type_name(name).unwrap_or(""));
                }
                _ if option.eq_ignore_ascii_case(b"NOVALUES") => {
                    return Err(scanning::NOT_A_HASH);
                }
                _ => return Err(Refusal::Syntax),
            }
            index += 2;
        }
        Ok(options)
    }
}

/// Returns the type with this name. Case is ignored.
fn type_name(name: &[u8]) -> Option<&'static str> {
    const KINDS: [Kind; 6] = [
        Kind::String,
        Kind::List,
        Kind::Set,
        Kind::SortedSet,
        Kind::Hash,
        Kind::Stream,
    ];
    KINDS
        .map(kind_name)
        .into_iter()
        .find(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
pub fn scan(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let cursor = scanning::cursor(&args[1])?;
    let options = Options::parse(args.from(2))?;
    let mut found = ctx.reply.part();
    let mut count = 0;
    let mut list = Reply::new(&mut found, ctx.reply.protocol());
    let visible = Visible::of(ctx.server);
    let next = ctx
        .view
        .scan(ctx.session.db, cursor, options.count, &mut |name, kind| {
            let is_wanted = visible.has(name)
                && options.kind.is_none_or(|wanted| kind_name(kind) == wanted)
                && options
                    .pattern
                    .is_none_or(|pattern| glob::matches(pattern, name, false));
            if is_wanted {
                list.bulk(name);
                count += 1;
            }
        });
    scanning::reply_page(&mut ctx.reply, next, count, &found);
    Ok(())
}

/// `RANDOMKEY`
pub fn randomkey(ctx: &mut Ctx<'_, '_>, _: Args<'_>) -> Answer {
    let visible = Visible::of(ctx.server);
    let found = (0..RANDOM_TRIES).find_map(|_| {
        let random = Random::new().next_u64();
        let name = ctx.view.random_key(ctx.session.db, random);
        name.filter(|name| visible.has(name))
    });
    match found {
        Some(name) => ctx.reply.bulk(&name),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// `DBSIZE`
pub fn dbsize<E: Strings>(ctx: &mut Ctx<'_, '_, E>, _: Args<'_>) -> Answer {
    let count = ctx.view.len(ctx.session.db);
    ctx.reply.integer(count as i64);
    Ok(())
}
