//! Arithmetic on fields: HINCRBY, HINCRBYFLOAT. They keep the fields' deadlines.

use crate::command::string::number::sum;
use crate::context::Ctx;
use engine::refusal::{Answer, Refusal};
use store::Class;
use wire::number::{Text, parse_i64};
use wire::{Args, LongDouble};

/// `HINCRBY key field increment`
pub fn hincrby(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let increment = parse_i64(&args[3]).ok_or(Refusal::NotInteger)?;
    let sum = replace(ctx, args, "hincrby", |old| {
        let old = match old {
            Some(text) => {
                parse_i64(text).ok_or(Refusal::Message("ERR hash value is not an integer"))?
            }
            None => 0,
        };
        let sum = sum(old, increment)?;
        Ok((sum, Text::integer(sum).as_bytes().to_vec()))
    })?;
    ctx.reply.integer(sum);
    Ok(())
}

/// `HINCRBYFLOAT key field increment`: calculates as INCRBYFLOAT does.
pub fn hincrbyfloat(ctx: &mut Ctx<'_, '_>, args: Args<'_>) -> Answer {
    let increment = LongDouble::parse(&args[3]).ok_or(Refusal::NotFloat)?;
    if increment.is_infinite() {
        return Err(Refusal::Message("ERR value is NaN or Infinity"));
    }
    let zero = LongDouble::parse(b"0").ok_or(Refusal::NotFloat)?;
    let text = replace(ctx, args, "hincrbyfloat", |old| {
        let old = match old {
            Some(text) => {
                LongDouble::parse(text).ok_or(Refusal::Message("ERR hash value is not a float"))?
            }
            None => zero,
        };
        let sum = old.plus(increment).ok_or(Refusal::Message(
            "ERR increment would produce NaN or Infinity",
        ))?;
        let mut text = Vec::new();
        sum.push_decimal(&mut text);
        Ok((text.clone(), text))
    })?;
    ctx.reply.bulk(&text);
    Ok(())
}

/// Replaces a field's value by the result of `work`.
fn replace<R>(
    ctx: &mut Ctx<'_, '_>,
    args: Args<'_>,
    event: &'static str,
    work: impl FnOnce(Option<&[u8]>) -> Result<(R, Vec<u8>), Refusal>,
) -> Result<R, Refusal> {
    let key = ctx.key(&args[1]);
    let mut refusal = None;
    let edited = ctx.view.edit_hash(&key, true, |hash, scene| {
        match work(hash.get(&args[2], scene)) {
            Ok((result, text)) => {
                hash.set_keeping(&args[2], &text, scene);
                Some(result)
            }
            Err(error) => {
                refusal = Some(error);
                None
            }
        }
    })?;
    match edited {
        Some(edited) => {
            ctx.edited(&key, &edited, Class::Hash, event);
            Ok(edited.result)
        }
        None => Err(refusal.expect("only a refusal changes nothing")),
    }
}
