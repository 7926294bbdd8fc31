//! Iteration over members: ZSCAN.

use super::access::read;
use crate::command::scanning::{self, Options};
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use wire::number::Text;
use wire::{Args, Reply};

/// `ZSCAN key cursor [MATCH pattern] [COUNT count]`
pub fn zscan(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let cursor = scanning::cursor(&args[2])?;
    let key = ctx.key(&args[1]);
    let protocol = ctx.reply.protocol();
    let mut found = ctx.reply.part();
    let page = read(ctx, &key, |set, scene| {
        let options = Options::parse(args.from(3), false)?;
        let mut count = 0;
        let mut list = Reply::new(&mut found, protocol);
        let next = set.scan(cursor, options.count, scene, |member, score| {
            if options.wants(member) {
                list.bulk(member);
                list.bulk(Text::double(score).as_bytes());
                count += 2;
            }
        });
        Ok::<_, Refusal>((next, count))
    })?;
    // Without a key the options are not checked.
    let (next, count) = page.transpose()?.unwrap_or_default();
    scanning::reply_page(&mut ctx.reply, next, count, &found);
    Ok(())
}
