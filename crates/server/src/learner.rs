//! The thread that trains and applies the ranking model of segment-eviction gl-cache.
//!
//! It wakes several times a second, runs a sampling, a training or a ranking if one is wanted, and
//! sleeps again. It has the lowest priority (`nice` 19). It shares with the workers the lock that
//! each of them takes once per segment, for a few instructions at a time, and the report for INFO.
//! If the thread loses its processor while it holds the lock, the workers wait until it continues.
//!
//! # Under load
//! The more a cache misses, the more often segments must be ranked, and the misses are most
//! frequent under high load. The work is therefore limited by CPU time: `learn-cpu` percent of a
//! core, of which ten seconds' worth can be saved up. Time beyond that is recovered before anything
//! else is done. If a ranking or a training takes much longer than its own CPU time, because the
//! processor is busy, rankings pause. After two late ones in a row, samples and trainings pause
//! too. Due work is tried again after the pause, and each further pause is twice as long, until a
//! ranking or a training is in time. Samples are too short for this measurement. The engine evicts
//! by age during the pauses.
//!
//! The model is kept only in memory. A server starts without a model, and there is no model file
//! that could be missing or stale.

use crate::state::Server;
use engine::segment::Segments;
use engine::segment::learning::{Report, State};
use learn::{CacheTotals, GroupLearner, GroupLearnerConfig, Interval};
use policy::groups::Groups;
use rustix::time::{ClockId, clock_gettime};
use settings::{Config, Id};
use std::time::{Duration, Instant};
use store::Tick;

/// Sleep after a turn that did some work, and maximum sleep after turns that did none.
const SLEEP_MIN: Duration = Duration::from_millis(10);
const SLEEP_MAX: Duration = Duration::from_millis(160);
/// Number of seconds over which unused CPU time can be saved up.
const SAVED_SECONDS: f64 = 10.0;
/// A ranking or training counts as late if it takes longer than this multiple of its CPU time plus
/// the constant.
const LATE_TIMES: u32 = 8;
const LATE_BEYOND: Duration = Duration::from_millis(20);
/// Pause after a late ranking or training. Each further pause is twice as long, up to 32 times this
/// one.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_BITS_MAX: u32 = 5;
/// Value of `learn-cpu` at which learning does not pause under load.
const IGNORE_LOAD_PERCENT: i64 = 100;
/// Age of a model in milliseconds from which on it counts as stale.
const STALE_MS: u64 = 2 * 24 * 60 * 60 * 1000;
/// Priority of the thread (`nice`): the lowest one.
const NICE: i32 = 19;

/// Account of the CPU time that the thread may use, which is a share of the elapsed time.
#[derive(Debug, Default)]
struct Allowance {
    seconds: f64,
}

impl Allowance {
    fn earn(&mut self, passed: Duration, percent: i64) {
        let share = percent as f64 / 100.0;
        self.seconds += passed.as_secs_f64() * share;
        self.seconds = self.seconds.min(SAVED_SECONDS * share);
    }

    fn spend(&mut self, cpu: Duration) {
        self.seconds -= cpu.as_secs_f64();
    }

    fn has_time(&self) -> bool {
        self.seconds > 0.0
    }
}

/// Kinds of work. The thread does at most one of them per turn of its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Sampling,
    Training,
    Ranking,
}

/// Detector of load by other threads. Its times are relative to the start of the learner.
#[derive(Debug, Default)]
struct LoadDetector {
    /// Number of consecutive late rankings and trainings.
    late: u32,
    until: Duration,
}

impl LoadDetector {
    /// Records the elapsed time and the CPU time of a step, and starts a pause if the step was
    /// late. Samplings are ignored, because they are too short to be evaluated.
    fn note(&mut self, step: Step, took: Duration, cpu: Duration, now: Duration) {
        if step == Step::Sampling {
            return;
        }
        if took <= cpu * LATE_TIMES + LATE_BEYOND {
            self.late = 0;
            return;
        }
        self.until = now + PAUSE * (1 << self.late.min(PAUSE_BITS_MAX));
        self.late += 1;
    }

    fn may_rank(&self, now: Duration) -> bool {
        self.late == 0 || now >= self.until
    }

    /// Returns whether samples and trainings are allowed now. They continue after one late step,
    /// but not after two in a row.
    fn may_train(&self, now: Duration) -> bool {
        self.late < 2 || now >= self.until
    }
}

/// Returns the CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Whether a kind of work is currently postponed, and how often it has been.
#[derive(Debug, Default)]
struct Postponed {
    waits: bool,
    count: u64,
}

impl Postponed {
    /// Records whether a kind of work is wanted and whether it is allowed. Returns whether it
    /// should be done now.
    fn starts(&mut self, is_wanted: bool, may_be: bool) -> bool {
        let waits = is_wanted && !may_be;
        self.count += u64::from(waits && !self.waits);
        self.waits = waits;
        is_wanted && may_be
    }
}

/// State of the thread while `segment-eviction` is gl-cache.
struct Learner<'s> {
    server: &'s Server,
    segments: &'s Segments,
    group_learner: GroupLearner,
    start: Instant,
    last_turn: Duration,
    allowance: Allowance,
    load: LoadDetector,
    /// Hits and misses at the last turn. They can be greater than the current counters, because
    /// CONFIG RESETSTAT sets those to zero.
    counted: (u64, u64),
    heard: CacheTotals,
    sleep: Duration,
    trainings: Postponed,
    rankings: Postponed,
    cpu: Duration,
    ranked_before: u64,
}

impl<'s> Learner<'s> {
    fn new(server: &'s Server, segments: &'s Segments) -> Self {
        let tutoring = GroupLearnerConfig {
            interval: interval(&server.config),
            seed: segments.seed,
            ..GroupLearnerConfig::default()
        };
        Learner {
            server,
            segments,
            group_learner: GroupLearner::new(&tutoring),
            start: Instant::now(),
            last_turn: Duration::ZERO,
            allowance: Allowance::default(),
            load: LoadDetector::default(),
            counted: (0, 0),
            heard: CacheTotals::default(),
            sleep: SLEEP_MIN,
            trainings: Postponed::default(),
            rankings: Postponed::default(),
            cpu: Duration::ZERO,
            ranked_before: segments.cache.stats().segments_ranked,
        }
    }

    fn update_totals(&mut self) {
        let stats = &self.server.observability.stats;
        let misses = stats.sum(|worker| &worker.segment_misses);
        let hits = stats.sum(|worker| &worker.segment_hits);
        let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        let missed = since(misses, self.counted.1);
        self.heard.requests += missed + since(hits, self.counted.0);
        self.heard.misses += missed;
        self.counted = (hits, misses);
        self.heard.now = self.server.clock.now();
        self.group_learner
            .observe(&self.segments.cache, &self.heard);
    }

    /// Runs one turn and returns how long to sleep.
    fn turn(&mut self) -> Duration {
        let cpu = cpu_time();
        let now = self.start.elapsed();
        let percent = self.server.config.number(Id::LearnCpu);
        self.allowance.earn(now - self.last_turn, percent);
        self.last_turn = now;
        self.update_totals();
        let step = self.work(now);
        let spent = cpu_time().saturating_sub(cpu);
        self.allowance.spend(spent);
        self.cpu += spent;
        if let Some(step) = step {
            let ended = self.start.elapsed();
            self.load.note(step, ended - now, spent, ended);
        }
        self.publish_report();
        self.sleep = match step {
            Some(_) => SLEEP_MIN,
            None => (self.sleep * 2).min(SLEEP_MAX),
        };
        self.sleep
    }

    /// Does the first kind of work that is wanted and allowed, and returns it. Trainings precede
    /// rankings, because they are rare and an old model ranks badly.
    fn work(&mut self, now: Duration) -> Option<Step> {
        let cache = &self.segments.cache;
        let respects_load = self.server.config.number(Id::LearnCpu) < IGNORE_LOAD_PERCENT;
        let has_time = self.allowance.has_time() || !respects_load;
        let may_train = has_time && (self.load.may_train(now) || !respects_load);
        let may_rank = has_time && (self.load.may_rank(now) || !respects_load);
        let is_due = self.group_learner.wants_training(cache, &self.heard);
        if self.trainings.starts(is_due, may_train) {
            self.group_learner.train(cache, &self.heard);
            return Some(Step::Training);
        }
        let is_used_up = self.group_learner.wants_ranking(cache);
        if self.rankings.starts(is_used_up, may_rank) {
            self.group_learner.rank(cache, self.heard.now);
            return Some(Step::Ranking);
        }
        if self.group_learner.wants_samples() && may_train {
            self.group_learner.sample(cache, self.heard.now);
            return Some(Step::Sampling);
        }
        None
    }

    fn state(&self) -> State {
        let age_ms = |at: Tick| self.heard.now.0.saturating_sub(at.0);
        if self.server.config.number(Id::LearnCpu) == 0 {
            State::Off
        } else if !self.group_learner.is_trained() {
            State::Untrained
        } else if self.rankings.waits {
            State::Overloaded
        } else if self
            .group_learner
            .learned_at()
            .is_some_and(|at| age_ms(at) > STALE_MS)
        {
            State::Stale
        } else {
            State::Learned
        }
    }

    fn publish_report(&self) {
        let report = Report {
            state: self.state(),
            learning_stats: self.group_learner.learning_stats(),
            learned_at: self.group_learner.learned_at(),
            held_out: self.group_learner.held_out().cloned(),
            rankings_postponed: self.rankings.count,
            trainings_postponed: self.trainings.count,
            cpu: self.cpu,
            span: self.start.elapsed(),
            ranked_before: self.ranked_before,
        };
        // A reader of INFO waits only for the exchange.
        let before = std::mem::replace(&mut *self.segments.learning.report(), report);
        drop(before);
    }
}

fn interval(config: &Config) -> Interval {
    match config.number(Id::LearnInterval) {
        0 => Interval::Auto,
        requests => Interval::Requests(u32::try_from(requests).unwrap_or(u32::MAX)),
    }
}

/// Runs until the server stops. Sleeps while `segment-eviction` is not gl-cache.
pub fn run(server: &Server) {
    let Some(segments) = &server.data.segments else {
        return;
    };
    // The priority of this thread only. If the system refuses it, the thread competes with the
    // workers.
    let _declined = rustix::process::setpriority_process(None, NICE);
    while !server.lifecycle.stops() {
        if !segments.cache.is_learning() {
            segments.learning.sleep(None);
            continue;
        }
        let mut learner = Learner::new(server, segments);
        while !server.lifecycle.stops() && segments.cache.is_learning() {
            let sleep = learner.turn();
            segments.learning.sleep(Some(sleep));
        }
        let reset = Report {
            ranked_before: segments.cache.stats().segments_ranked,
            ..Report::default()
        };
        *segments.learning.report() = reset;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_cpu_time_is_saved_for_ten_seconds_and_overruns_are_recovered() {
        let mut allowance = Allowance::default();
        assert!(!allowance.has_time());
        allowance.earn(Duration::from_secs(1000), 5);
        allowance.spend(Duration::from_millis(499));
        assert!(allowance.has_time());
        allowance.spend(Duration::from_millis(101));
        assert!(!allowance.has_time());
        allowance.earn(Duration::from_millis(1_900), 5);
        assert!(!allowance.has_time());
        allowance.earn(Duration::from_millis(200), 5);
        assert!(allowance.has_time());
        let mut none = Allowance::default();
        none.earn(Duration::from_secs(1000), 0);
        assert!(!none.has_time());
    }

    #[test]
    fn rankings_pause_before_trainings_and_one_in_time_ends_the_pauses() {
        let (ms, at) = (Duration::from_millis, Duration::from_secs);
        let mut load = LoadDetector::default();
        load.note(Step::Ranking, ms(30), ms(5), at(0));
        assert!(load.may_rank(at(0)));
        load.note(Step::Ranking, ms(200), ms(5), at(1));
        assert!(!load.may_rank(at(1)));
        assert!(load.may_train(at(1)));
        assert!(load.may_rank(at(2)), "the ranking is tried again");
        load.note(Step::Ranking, ms(200), ms(5), at(2));
        assert!(!load.may_rank(at(3)));
        assert!(!load.may_train(at(3)));
        assert!(load.may_rank(at(4)));
        load.note(Step::Training, ms(6), ms(5), at(4));
        assert!(load.may_rank(at(4)));
        assert!(load.may_train(at(4)));
        for turn in 0..40 {
            load.note(Step::Ranking, at(60), ms(1), at(100 * turn));
            assert!(load.may_rank(at(100 * turn + 32)));
        }
    }

    #[test]
    fn samples_between_late_rankings_do_not_shorten_the_pauses() {
        let (ms, at) = (Duration::from_millis, Duration::from_secs);
        let mut load = LoadDetector::default();
        let mut now = at(0);
        for pause in [1, 2, 4, 8, 16, 32, 32] {
            load.note(Step::Ranking, ms(200), ms(5), now);
            for _ in 0..100 {
                load.note(Step::Sampling, ms(0), ms(0), now);
            }
            assert!(!load.may_rank(now + at(pause) - ms(1)));
            now += at(pause);
            assert!(load.may_rank(now));
        }
    }

    #[test]
    fn postponed_work_is_counted_once() {
        let mut postponed = Postponed::default();
        for _ in 0..5 {
            assert!(!postponed.starts(true, false));
        }
        assert_eq!((postponed.count, postponed.waits), (1, true));
        assert!(postponed.starts(true, true));
        assert!(!postponed.starts(false, false));
        assert_eq!((postponed.count, postponed.waits), (1, false));
        assert!(!postponed.starts(true, false));
        assert_eq!(postponed.count, 2);
    }
}
