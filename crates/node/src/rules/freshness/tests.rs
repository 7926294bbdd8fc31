use super::*;
use crate::rules::headers;
use proptest::prelude::*;

/// An instant in whole seconds, so that dates are exact.
const NOW: u64 = 1_700_000_000_000;

fn asked() -> Asked<'static> {
    Asked {
        method: &Method::GET,
        has_authorization: false,
        sent_ms: NOW,
    }
}

fn of(status: u16, fields: &[(&'static str, &str)]) -> Result<Terms, Refusal> {
    let status = StatusCode::from_u16(status).expect("the input is valid");
    judge(asked(), status, &headers(fields), NOW, Grace::default()).map(|(terms, _)| terms)
}

fn date(offset_seconds: i64) -> String {
    let ms = NOW.saturating_add_signed(offset_seconds * 1_000);
    dates::format(ms)
        .to_str()
        .expect("the input is valid")
        .to_owned()
}

#[test]
fn a_lifetime_is_counted_from_the_origins_date() {
    let terms = of(
        200,
        &[("cache-control", "max-age=60"), ("date", &date(-10))],
    )
    .expect("the input is valid");
    assert_eq!(terms.age_ms(NOW), 10_000);
    assert!(terms.is_fresh(NOW + 49_999));
    assert!(!terms.is_fresh(NOW + 50_000));
    assert_eq!(terms.remaining_ms(NOW + 51_000), -1_000);
}

#[test]
fn the_age_of_another_cache_and_the_delay_are_added() {
    let request = Asked {
        sent_ms: NOW - 5_000,
        ..asked()
    };
    let fields = headers(&[("cache-control", "max-age=60"), ("age", "30")]);
    let (terms, _) =
        judge(request, StatusCode::OK, &fields, NOW, Grace::default()).expect("the input is valid");
    assert_eq!(terms.age_ms(NOW), 35_000);
}

#[test]
fn the_shared_lifetime_wins_over_others() {
    let fields = [
        ("cache-control", "max-age=1, s-maxage=7"),
        ("expires", &date(100)),
    ];
    let terms = of(200, &fields).expect("the input is valid");
    assert_eq!(terms.fresh_ms, 7_000);
    assert!(terms.must_revalidate, "s-maxage implies proxy-revalidate");
    let terms =
        of(200, &[("expires", &date(100)), ("date", &date(0))]).expect("the input is valid");
    assert_eq!(terms.fresh_ms, 100_000);
}

#[test]
fn a_malformed_expires_is_in_the_past() {
    let fields = [("expires", "0"), ("last-modified", &date(-1_000_000))];
    assert_eq!(of(200, &fields).expect("the input is valid").fresh_ms, 0);
    assert_eq!(of(200, &[("expires", "0")]), Err(Refusal::Useless));
}

#[test]
fn a_targeted_field_replaces_the_general_ones() {
    let fields = [
        ("cache-control", "no-store"),
        ("cdn-cache-control", "max-age=5"),
        ("expires", "0"),
    ];
    assert_eq!(
        of(200, &fields).expect("the input is valid").fresh_ms,
        5_000
    );
    let fields = [
        ("cache-control", "no-store"),
        ("cdn-cache-control", "max-age=\"5\""),
    ];
    assert_eq!(of(200, &fields), Err(Refusal::NoStore));
}

#[test]
fn a_tenth_of_the_time_since_the_modification_is_the_default() {
    let fields = [("last-modified", &*date(-1_000)), ("date", &date(0))];
    assert_eq!(
        of(200, &fields).expect("the input is valid").fresh_ms,
        100_000
    );
    assert_eq!(of(201, &fields).expect("the input is valid").fresh_ms, 0);
    let fields = [
        ("last-modified", &*date(-1_000)),
        ("date", &date(0)),
        ("cache-control", "public"),
    ];
    assert_eq!(
        of(599, &fields).expect("the input is valid").fresh_ms,
        100_000
    );
    let old = [
        ("last-modified", &*date(-1_000_000_000)),
        ("date", &date(0)),
    ];
    assert_eq!(
        of(200, &old).expect("the input is valid").fresh_ms,
        HEURISTIC_MS_MAX
    );
}

#[test]
fn refusals_name_their_reason() {
    let refused = |status, control: &str| of(status, &[("cache-control", control)]).err();
    assert_eq!(refused(200, "no-store, max-age=9"), Some(Refusal::NoStore));
    assert_eq!(refused(200, "private, max-age=9"), Some(Refusal::Private));
    assert_eq!(refused(304, "max-age=9"), Some(Refusal::Status));
    assert_eq!(refused(200, "no-cache"), Some(Refusal::Useless));
    assert_eq!(refused(200, "no-store, must-understand, max-age=9"), None);
    let status = refused(599, "no-store, must-understand, max-age=9");
    assert_eq!(status, Some(Refusal::Status));
}

#[test]
fn a_response_to_credentials_is_shared_only_if_it_says_so() {
    let request = Asked {
        has_authorization: true,
        ..asked()
    };
    let of = |control| {
        let fields = headers(&[("cache-control", control)]);
        judge(request, StatusCode::OK, &fields, NOW, Grace::default()).err()
    };
    assert_eq!(of("max-age=9"), Some(Refusal::Authorization));
    assert_eq!(of("max-age=9, public"), None);
    assert_eq!(of("max-age=9, must-revalidate"), None);
    assert_eq!(of("s-maxage=9"), None);
}

#[test]
fn stale_windows_begin_when_freshness_ends() {
    let control = "max-age=10, stale-while-revalidate=5, stale-if-error=20";
    let terms = of(200, &[("cache-control", control)]).expect("the input is valid");
    assert!(terms.is_usable_meanwhile(NOW + 14_999) && !terms.is_usable_meanwhile(NOW + 15_000));
    assert!(terms.is_usable_on_error(NOW + 29_999) && !terms.is_usable_on_error(NOW + 30_000));
    assert_eq!(terms.usable_ms(NOW), 30_000);
    let strict = of(
        200,
        &[("cache-control", &*format!("{control}, must-revalidate"))],
    )
    .expect("the input is valid");
    assert!(!strict.is_usable_meanwhile(NOW + 11_000) && !strict.is_usable_on_error(NOW + 11_000));
}

#[test]
fn a_validator_keeps_a_stale_response() {
    let fields = [("cache-control", "no-cache"), ("etag", "\"a\"")];
    let terms = of(200, &fields).expect("the input is valid");
    assert!(!terms.is_fresh(NOW) && !terms.is_usable_on_error(NOW));
    assert_eq!(terms.usable_ms(NOW), Grace::default().keep_ms);
}

/// Such a response was judged storable, although no time of use was left.
#[test]
fn a_response_that_is_older_than_its_time_of_use_is_refused() {
    let keep_seconds = Grace::default().keep_ms / 1_000;
    let of_age = |seconds: u64, more: &[(&'static str, &str)]| {
        let age = seconds.to_string();
        of(200, &[&[("age", &*age)], more].concat())
    };
    for validator in [("last-modified", ""), ("etag", "\"a\"")] {
        let refused = of_age(2_147_483_648, &[validator]);
        assert_eq!(refused, Err(Refusal::Useless));
        assert_eq!(of_age(keep_seconds, &[validator]), Err(Refusal::Useless));
        let terms = of_age(keep_seconds - 1, &[validator]).expect("it is kept for a second");
        assert_eq!(terms.usable_ms(NOW), 1_000);
        let limit = [("cache-control", "max-age=60"), validator];
        assert_eq!(of_age(keep_seconds + 60, &limit), Err(Refusal::Useless));
        assert!(of_age(keep_seconds + 59, &limit).is_ok());
    }
}

#[test]
fn freshness_can_be_ended() {
    let mut terms = of(200, &[("cache-control", "max-age=60")]).expect("the input is valid");
    terms.end_freshness(NOW + 5_000);
    assert!(!terms.is_fresh(NOW + 5_000));
    assert!(terms.is_usable_on_error(NOW + 6_000));
}

#[test]
fn a_clock_that_goes_back_does_not_make_a_response_younger_than_it_was() {
    let fields = [("cache-control", "max-age=60"), ("age", "20")];
    let terms = of(200, &fields).expect("the input is valid");
    assert_eq!(terms.age_ms(NOW - 1_000_000), 20_000);
}

proptest! {
    #[test]
    fn a_response_never_becomes_fresh_again(
        max_age in 0_u64..1_000,
        age in 0_u64..1_000,
        stale in 0_u64..1_000,
        times in proptest::collection::vec(0_u64..3_000_000, 2..20),
    ) {
        let control = format!("max-age={max_age}, stale-while-revalidate={stale}");
        let fields = [("cache-control", &*control), ("age", &age.to_string()), ("etag", "\"a\"")];
        let is_spent = age >= max_age + stale.max(Grace::default().keep_ms / 1_000);
        let judged = of(200, &fields);
        prop_assert_eq!(judged.is_err(), is_spent);
        let Ok(terms) = judged else {
            return Ok(());
        };
        let mut times = times;
        times.sort_unstable();
        for pair in times.windows(2) {
            let (first, second) = (NOW + pair[0], NOW + pair[1]);
            prop_assert!(terms.is_fresh(first) || !terms.is_fresh(second));
            prop_assert!(terms.usable_ms(first) >= terms.usable_ms(second));
            // Whatever is usable in any way has not left.
            let is_used = terms.is_fresh(second) || terms.is_usable_meanwhile(second);
            prop_assert!(!is_used || terms.usable_ms(second) > 0);
        }
    }
}

#[test]
fn the_operators_lifetime_applies_if_the_origin_gives_none() {
    let grace = Grace {
        fresh_ms: Some(7_000),
        ..Grace::default()
    };
    let of = |fields: &[(&'static str, &str)]| {
        let judged = judge(asked(), StatusCode::FOUND, &headers(fields), NOW, grace);
        judged.map(|(terms, _)| terms.fresh_ms)
    };
    assert_eq!(of(&[]), Ok(7_000));
    assert_eq!(of(&[("last-modified", &date(-100_000))]), Ok(7_000));
    assert_eq!(of(&[("cache-control", "max-age=2")]), Ok(2_000));
    assert_eq!(of(&[("expires", &date(3))]), Ok(3_000));
    assert_eq!(of(&[("expires", "0")]), Err(Refusal::Useless));
    assert_eq!(of(&[("cache-control", "private")]), Err(Refusal::Private));
    assert_eq!(of(&[("cache-control", "no-store")]), Err(Refusal::NoStore));
}
