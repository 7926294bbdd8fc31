//! Commands that list members: SMEMBERS, SSCAN.

use crate::command::scanning::{self, Options};
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use wire::{Args, Reply};

/// `SMEMBERS key`
pub fn smembers(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let key = ctx.key(&args[1]);
    let reply = &mut ctx.reply;
    let found = ctx.view.read_set(&key, |set, scene| {
        reply.set(set.len(scene));
        set.each(scene, |member| reply.bulk(member));
    })?;
    if found.is_none() {
        ctx.reply.set(0);
        ctx.missed(&key);
    }
    Ok(())
}

/// `SSCAN key cursor [MATCH pattern] [COUNT count]`
pub fn sscan(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let cursor = scanning::cursor(&args[2])?;
    let key = ctx.key(&args[1]);
    let (mut found, mut count) = (ctx.reply.part(), 0);
    let mut list = Reply::new(&mut found, ctx.reply.protocol());
    let read = ctx
        .view
        .read_set(&key, |set, scene| -> Result<u64, Refusal> {
            let options = Options::parse(args.from(3), false)?;
            Ok(set.scan(cursor, options.count, scene, &mut |member| {
                if options.wants(member) {
                    list.bulk(member);
                    count += 1;
                }
            }))
        })?;
    if read.is_none() {
        ctx.missed(&key);
    }
    let next = read.transpose()?.unwrap_or(0);
    scanning::reply_page(&mut ctx.reply, next, count, &found);
    Ok(())
}
