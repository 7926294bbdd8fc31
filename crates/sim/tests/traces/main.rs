//! The simulator on the open traces, alone and compared with the library.
//!
//! The traces and the reference stand outside of the repository, in `../shared`; without them their
//! tests are ignored. They take the small traces, and all with `MAYFLY_TRACES=all`.

mod advice;
mod library_misses;
mod reference;
mod samples;

use libtest_mimic::{Arguments, Completion, Trial};
use std::path::Path;

fn main() {
    // Tests of the standard harness cannot be ignored while they run.
    let on_traces = |name, test: fn(&Path)| {
        Trial::ignorable_test(name, move || {
            let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
            if !shared.join("traces").is_dir() {
                return Ok(Completion::ignored_with("there are no traces in ../shared"));
            }
            test(&shared);
            Ok(Completion::Completed)
        })
    };
    let tests = vec![
        on_traces(
            "advice::predictions_hold_in_full_simulation",
            advice::predictions_hold_in_full_simulation,
        ),
        on_traces(
            "samples::samples_of_the_default_rate_are_within_one_percent",
            samples::samples_of_the_default_rate_are_within_one_percent,
        ),
        on_traces(
            "reference::exact_policies_miss_as_often_as_in_the_reference",
            reference::exact_policies_miss_as_often_as_in_the_reference,
        ),
        on_traces(
            "library_misses::the_library_misses_as_often_on_real_traces",
            library_misses::the_library_misses_as_often_on_real_traces,
        ),
        Trial::test(
            "library_misses::the_library_misses_as_often_as_the_simulator",
            || {
                library_misses::the_library_misses_as_often_as_the_simulator();
                Ok(())
            },
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}
